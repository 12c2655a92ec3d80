"""Where the truth is kept: one SQL store, on SQLite for one machine and on PostgreSQL for a fleet."""
