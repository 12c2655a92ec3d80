"""The audit log in SQL."""
