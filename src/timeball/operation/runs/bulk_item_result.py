"""What became of each of several runs that something was asked for."""

from __future__ import annotations

from msgspec import Struct

from timeball.domain.errors import TimeballError


class BulkItemResult(Struct, frozen=True):
    run_id: str
    successor: str | None = None
    """The run that executes now: a new one, or the same."""
    error: TimeballError | None = None
    """Why nothing was done."""
