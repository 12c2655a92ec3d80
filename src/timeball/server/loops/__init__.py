"""The background loops of a server, one duty each."""
