"""The guard: a small process between a worker and its job processes."""
