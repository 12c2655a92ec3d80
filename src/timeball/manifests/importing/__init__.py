"""Crontabs and Kubernetes CronJobs as manifests."""
