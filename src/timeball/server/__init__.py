"""A server: its loops and its worker gateway."""
