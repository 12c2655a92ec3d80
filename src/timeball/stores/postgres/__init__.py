"""The PostgreSQL driver of the store."""
