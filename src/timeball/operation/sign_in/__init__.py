"""Operations of browsers that sign in: one-time links and web sessions."""
