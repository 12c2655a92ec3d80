"""Routes about jobs and their schedules."""
