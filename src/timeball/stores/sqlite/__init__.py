"""The SQLite driver of the store."""
