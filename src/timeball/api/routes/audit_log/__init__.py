"""The audit log: its entries and its export, and what each request says about itself in it."""
