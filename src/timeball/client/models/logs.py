"""Answers with the output of runs."""

from __future__ import annotations

from datetime import datetime

from timeball.client.models.model import Model


class LogChunk(Model, frozen=True):
    """A chunk of the output of an attempt. It begins and ends where it was read, not at the ends of lines."""

    attempt: int
    seq: int
    """Number of the chunk within the attempt, from 0."""
    stream: str = "stdout"
    """`stdout` or `stderr`; `system` for a message of Timeball about the output."""
    at: datetime | None = None
    text: str = ""


class LogLine(Model, frozen=True):
    """A line of the output of an attempt, without its line break."""

    attempt: int
    stream: str
    at: datetime | None
    text: str


class LogPage(Model, frozen=True):
    items: list[LogChunk]
    next_cursor: str | None = None
