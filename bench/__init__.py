"""Figures, each beside the configuration that it was measured with. `make bench` runs the sections."""
