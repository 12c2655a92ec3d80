"""Sentences for people about schedules, numbers and times."""
