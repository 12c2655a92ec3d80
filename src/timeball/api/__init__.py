"""The REST API: a table of typed routes, and what turns requests into operations and answers into JSON."""
