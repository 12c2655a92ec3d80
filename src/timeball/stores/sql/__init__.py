"""The store logic, written once for both databases. `dialect.py` translates the SQL texts for each database. The
drivers (`stores/sqlite`, `stores/postgres`) connect to the databases.
"""
