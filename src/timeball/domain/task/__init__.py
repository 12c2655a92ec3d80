"""What a job executes, and when a failed attempt is repeated."""
