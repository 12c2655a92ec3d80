"""From SQLite to PostgreSQL: everything a store has, once, and so that only one of the two goes on firing."""
