"""Maintenance in SQL: the lease, retention, steps of the clock."""
