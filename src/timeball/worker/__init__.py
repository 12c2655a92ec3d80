"""A worker: executes attempts and reports their outcomes."""
