"""The store, as a few protocols."""
