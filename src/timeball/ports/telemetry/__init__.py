"""Protocols for what a process records about itself."""
