"""The REST API: a table of typed routes, and the code that decodes requests and encodes answers."""
