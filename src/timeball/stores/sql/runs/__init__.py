"""Runs in SQL: claim, settle, gates, ordering keys, workers."""
