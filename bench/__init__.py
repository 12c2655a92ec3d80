"""Benchmarks. Each figure is shown with the configuration that it was measured with. `make bench` runs the sections."""
