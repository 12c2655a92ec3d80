"""Operations on tenants and their users."""
