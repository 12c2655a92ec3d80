"""Sign-in of browsers: which address is the server's own, which requests come from its own page, and which web session
they have."""
