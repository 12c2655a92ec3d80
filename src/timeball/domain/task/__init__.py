"""Tasks: what a run executes, and the retry policy for failed attempts."""
