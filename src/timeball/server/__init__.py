"""The parts of a server: its background loops and its worker gateway."""
