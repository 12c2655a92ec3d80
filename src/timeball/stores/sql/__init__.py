"""The store logic, written once for both databases. `dialect.py` has the differences in SQL, the drivers connect."""
