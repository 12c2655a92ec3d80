"""Conversion of keyword arguments that select jobs into the filters of the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypedDict

from timeball.client.job_document import moment, require_known


class JobFilters(TypedDict, total=False):
    """Filters of a list of jobs. A job must match all of them."""

    status: str | Sequence[str] | None
    name: str | None
    tag: str | None
    user_id: str | None
    calendar: str | None
    task_id: str | None
    q: str | None
    """Part of the name, in upper or lower case, or a job id."""
    kind: str | None
    """Kind of the task, or `workflow`."""
    schedule_type: str | None


class JobSelection(JobFilters, total=False):
    """Filters that select jobs for an action."""

    created_before: datetime | str | None
    """The `created_before` of an earlier answer: selects the same jobs again, without jobs that were created later."""
    everything: bool
    """True to select all jobs. No other filter may be given."""


_WORDS: Final = {
    "status": "status",
    "name": "name",
    "tag": "tag",
    "user_id": "userId",
    "calendar": "calendar",
    "task_id": "taskId",
    "q": "q",
    "kind": "kind",
    "schedule_type": "scheduleType",
}
_KNOWN: Final = (*_WORDS, "created_before", "everything")


def narrowed_jobs(where: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given filters with their names in the API. Raise `Invalid` for an unknown filter: without it, more
    jobs would match than the caller means."""
    require_known(where, _KNOWN, "jobs have no filter")
    said = {field: where[name] for name, field in _WORDS.items() if where.get(name) is not None}
    if where.get("created_before") is not None:
        said["createdBefore"] = moment(where["created_before"])
    return {**said, "all": True} if where.get("everything") else said
