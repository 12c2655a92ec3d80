"""Child processes that execute many runs of Python functions, one after the other."""
