"""Operations on workflows."""
