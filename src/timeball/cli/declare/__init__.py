"""Commands for jobs that are declared in files."""
