"""Tasks that need each other."""
