"""The loops of a server, one duty and one file each, and the worker."""
