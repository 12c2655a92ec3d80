"""Commands that explain the past and future fires of jobs, and list workers."""
