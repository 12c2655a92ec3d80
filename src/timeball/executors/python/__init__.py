"""The executor of Python functions."""
