"""Operations that users and workers request: one verb per file. They use only ports and the domain."""
