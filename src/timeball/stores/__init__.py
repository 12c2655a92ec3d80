"""The stores: one implementation in SQL, on SQLite for one machine and on PostgreSQL for a fleet."""
