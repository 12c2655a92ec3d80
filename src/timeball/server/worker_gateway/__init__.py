"""The server side of the worker protocol."""
