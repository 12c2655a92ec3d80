"""Conversion of keyword arguments that select runs into the filters of the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypedDict

from timeball.client.job_document import moment, require_known


class DeadLetterWhere(TypedDict, total=False):
    """Filters for dead letters. A dead letter must match all of them."""

    job_id: str | None
    fingerprint: str | None
    """Fingerprint of the error of the last attempt."""
    tag: str | None
    user_id: str | None
    task_id: str | None
    since: datetime | str | None
    """Fire time at or after this instant."""
    until: datetime | str | None
    """Fire time before this instant."""


class DeadLetterChoice(DeadLetterWhere, total=False):
    """Filters that select dead letters for an action."""

    created_before: datetime | str | None
    """The `created_before` of an earlier answer: selects the same runs again, without runs that were created later."""
    everything: bool
    """True to select all dead letters or runs. No other filter may be given."""


class RunSelection(DeadLetterChoice, total=False):
    """Filters that select runs for an action."""

    status: str | Sequence[str] | None
    origin: str | Sequence[str] | None


class RunFilters(DeadLetterWhere, total=False):
    """Filters of a list of runs. A run must match all of them."""

    status: str | Sequence[str] | None
    origin: str | Sequence[str] | None
    worker_id: str | None
    """Selects the runs that this worker executes now."""
    archived: bool
    """True to select the runs that are only in the archive."""


_WORDS: Final = {
    "job_id": "jobId",
    "fingerprint": "fingerprint",
    "tag": "tag",
    "user_id": "userId",
    "task_id": "taskId",
    "status": "status",
    "origin": "origin",
    "worker_id": "workerId",
}
_MOMENTS: Final = {"since": "startTime", "until": "endTime", "created_before": "createdBefore"}
_KNOWN: Final = (*_WORDS, *_MOMENTS, "everything", "archived")


def narrowed(where: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given filters with their names in the API. Raise `Invalid` for an unknown filter: without it, more
    runs would match than the caller means."""
    require_known(where, _KNOWN, "runs have no filter")
    given = {name: value for name, value in where.items() if value is not None}
    fields = {field: given[name] for name, field in _WORDS.items() if name in given}
    fields |= {field: moment(given[name]) for name, field in _MOMENTS.items() if name in given}
    return {**fields, "all": True} if given.get("everything") else fields
