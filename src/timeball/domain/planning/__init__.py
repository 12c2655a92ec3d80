"""From the fires of a job to runs and ledger rows."""
