"""Rules that compute when jobs are due: schedules, cron expressions, time zones and calendars."""
