"""Jobs as JSON: what the API and manifests share to read and to show them."""
