"""Output of runs."""

from __future__ import annotations

from datetime import datetime

from timeball.client.models.answer import Answer


class LogChunk(Answer, frozen=True):
    """Something that an attempt printed. It begins and ends where it was read, not where lines do."""

    attempt: int
    seq: int
    """Counts within the attempt, from 0."""
    stream: str = "stdout"
    """`stdout` or `stderr`; `system`, if Timeball has something to say about the output."""
    at: datetime | None = None
    text: str = ""


class LogLine(Answer, frozen=True):
    """A line of what an attempt printed, without its end."""

    attempt: int
    stream: str
    at: datetime | None
    text: str


class LogPage(Answer, frozen=True):
    items: list[LogChunk]
    next_cursor: str | None = None
