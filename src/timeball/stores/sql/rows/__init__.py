"""Conversion between rows of the database and values of the domain."""
