"""Who makes a request, and what the request may do."""
