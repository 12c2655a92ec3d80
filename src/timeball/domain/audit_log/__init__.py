"""The audit log: each change with its actor, time and address, in chains of hashes."""
