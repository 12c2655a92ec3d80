"""API keys, registered tasks and calendars in SQL."""
