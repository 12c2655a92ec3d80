"""Operations on jobs."""
