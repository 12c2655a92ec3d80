"""Logging of a running process, for operators."""
