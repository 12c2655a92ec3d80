"""Commands for jobs in files."""
