"""The one store logic. What differs between the databases is in `dialect.py`, how to reach them in the drivers."""
