"""Reads in SQL: lists, the ledger, diagnosis, the archive."""
