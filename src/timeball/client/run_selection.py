"""Conversion of keyword arguments that select runs into the filters of the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypedDict

from timeball.client.job_document import moment


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


_WORDS: Final = {
    "job_id": "jobId",
    "fingerprint": "fingerprint",
    "tag": "tag",
    "user_id": "userId",
    "task_id": "taskId",
    "status": "status",
    "origin": "origin",
}
_MOMENTS: Final = {"since": "startTime", "until": "endTime", "created_before": "createdBefore"}


def narrowed(where: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given filters with their names in the API."""
    given = {name: value for name, value in where.items() if value is not None}
    fields = {field: given[name] for name, field in _WORDS.items() if name in given}
    fields |= {field: moment(given[name]) for name, field in _MOMENTS.items() if name in given}
    return {**fields, "all": True} if given.get("everything") else fields
