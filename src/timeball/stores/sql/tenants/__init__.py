"""What the store does for tenants."""
