"""Workflows: jobs that are made of tasks which need each other, and their runs."""
