"""Job processes."""
