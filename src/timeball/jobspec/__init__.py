"""Jobs as JSON. The API and the manifests use this package to read job documents and to show jobs."""
