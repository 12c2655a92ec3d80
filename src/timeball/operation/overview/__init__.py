"""Operations that read the overview."""
