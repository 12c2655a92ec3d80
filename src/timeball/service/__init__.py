"""What runs on its own: the loops of a server, and the worker."""
