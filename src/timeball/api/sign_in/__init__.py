"""Browsers: which address is the server's own, which requests come from its own page, and which session they have."""
