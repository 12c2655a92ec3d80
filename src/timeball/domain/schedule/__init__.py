"""When jobs are due: schedules, cron, time zones and calendars."""
