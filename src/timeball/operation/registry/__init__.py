"""Operations on what jobs and people refer to: registered tasks and API keys."""
