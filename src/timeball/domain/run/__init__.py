"""Runs: lifecycle, ledger, lateness, error fingerprints, and the archived form."""
