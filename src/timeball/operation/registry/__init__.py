"""Operations on registered tasks and API keys."""
