"""Rules that decide which run starts first and on which worker."""
