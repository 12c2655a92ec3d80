"""What commands do with a store, besides serving it."""
