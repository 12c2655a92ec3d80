"""Routes of the overview."""
