"""Tasks: what a job executes, and the retry policy for failed attempts."""
