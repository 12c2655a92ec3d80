"""Workflow runs in SQL."""
