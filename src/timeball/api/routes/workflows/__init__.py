"""Routes of workflows (jobs with tasks that need each other) and of their runs."""
