"""Backups of a SQLite store, with its large values and scripts."""
