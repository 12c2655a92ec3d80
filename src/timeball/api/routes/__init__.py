"""The routes of the API, one module per resource. Each module ends with its table `ROUTES`."""
