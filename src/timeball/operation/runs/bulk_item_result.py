"""The result of a bulk action for one run."""

from __future__ import annotations

from msgspec import Struct

from timeball.domain.errors import TimeballError


class BulkItemResult(Struct, frozen=True):
    run_id: str
    successor: str | None = None
    """The id of the run that executes now: a new run, or the same run if it was retried early."""
    error: TimeballError | None = None
    """The reason why nothing was done."""
