"""Commands about jobs and what they refer to."""
