"""Rules that turn the fires of a job into runs and ledger rows."""
