"""Jobs in SQL: submit, amend, backfill, manual runs."""
