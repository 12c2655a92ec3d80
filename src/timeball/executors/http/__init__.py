"""The executor of HTTP tasks."""
