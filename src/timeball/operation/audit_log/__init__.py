"""Operations of the audit log."""
