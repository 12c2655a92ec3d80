"""Workflows: jobs with tasks that depend on each other."""
