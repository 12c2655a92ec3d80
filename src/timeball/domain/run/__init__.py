"""Runs: their lifecycle, their ledger, and their archived form."""
