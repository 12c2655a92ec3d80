"""Attacks and honest work at the same time, in alternating phases: `make soak`."""
