"""Moves a whole store from SQLite to PostgreSQL, once, so that only one of the two continues to fire jobs."""
