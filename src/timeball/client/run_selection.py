"""Which runs are meant: friendly keyword arguments → the filters of the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypedDict

from timeball.client.job_document import moment


class LettersWhere(TypedDict, total=False):
    """Dead letters that are as all of these say."""

    job_id: str | None
    fingerprint: str | None
    """Of the error with which they gave up."""
    tag: str | None
    user_id: str | None
    task_id: str | None
    since: datetime | str | None
    """Fired at or after."""
    until: datetime | str | None
    """Fired before."""


class Letters(LettersWhere, total=False):
    """The same, to do something with them."""

    created_before: datetime | str | None
    """As an earlier answer says: the same again, and nothing that was created since."""
    everything: bool
    """All of them; nothing else may be said then."""


class RunSelection(Letters, total=False):
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
    """What was said, in the words of the API."""
    given = {name: value for name, value in where.items() if value is not None}
    said = {field: given[name] for name, field in _WORDS.items() if name in given}
    said |= {field: moment(given[name]) for name, field in _MOMENTS.items() if name in given}
    return {**said, "all": True} if given.get("everything") else said
