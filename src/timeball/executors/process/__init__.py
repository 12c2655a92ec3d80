"""Job processes and the pipes that read their output."""
