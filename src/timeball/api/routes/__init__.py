"""The routes, one file per thing they are about. Each file ends in its `ROUTES`."""
