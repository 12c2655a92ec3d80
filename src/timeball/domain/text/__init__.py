"""Schedules and numbers as sentences for people."""
