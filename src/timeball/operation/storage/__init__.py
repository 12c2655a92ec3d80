"""Operations on object storage: large values and the archive."""
