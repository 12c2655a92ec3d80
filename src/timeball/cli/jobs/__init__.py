"""Commands about jobs, workflows, backfills, registered tasks and calendars."""
