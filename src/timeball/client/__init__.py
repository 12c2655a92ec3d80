"""Timeball from Python: requests that are built and answers that are read by pure functions, and thin clients
that carry them."""
