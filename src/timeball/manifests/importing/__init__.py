"""Imports crontabs and Kubernetes CronJobs as declared jobs."""
