"""The result of a bulk action for one run."""

from __future__ import annotations

from msgspec import Struct

from timeball.domain.errors import TimeballError


class BulkItemResult(Struct, frozen=True):
    run_id: str
    successor: str | None = None
    """The run that executes now: a new one, or the same one."""
    error: TimeballError | None = None
    """The reason why nothing was done."""
