"""Which run starts first, and on which worker."""
