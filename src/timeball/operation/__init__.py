"""What users and workers can ask for: one verb per file, seeing only ports and domain."""
