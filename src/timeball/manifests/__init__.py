"""Jobs declared in files: read manifests, crontabs and Kubernetes CronJobs, compare them with the jobs of a server, and
apply the difference.
"""
