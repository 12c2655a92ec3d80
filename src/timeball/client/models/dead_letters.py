"""Answers about dead letters: groups, retries and discards."""

from __future__ import annotations

from datetime import datetime

from timeball.client.models.model import Model
from timeball.client.models.runs import Retried


class DeadGroup(Model, frozen=True):
    """A group of dead letters with the same error."""

    count: int
    fingerprint: str = ""
    """Selects the group in filters. `none`: the group of dead letters that have no fingerprint."""
    kind: str | None = None
    message: str | None = None
    jobs: int = 0
    """Number of jobs that the dead letters belong to."""
    first_at: datetime | None = None
    last_at: datetime | None = None
    example_run_id: str | None = None


class DeadGroups(Model, frozen=True):
    items: list[DeadGroup]
    counted: int = 0
    more: bool = False
    """True if there are older dead letters that were not counted."""


class Retrial(Model, frozen=True):
    """The result of a retry of dead letters. The answer to a dry run has only `matched` and `created_before`."""

    matched: int = 0
    retried: int = 0
    skipped: int = 0
    items: list[Retried] = []
    """The result of each run; empty if the request selected too many runs for one answer."""
    created_before: datetime | None = None


class Discarding(Model, frozen=True):
    """The result of a discard of dead letters. The answer to a dry run has only `matched` and `created_before`."""

    matched: int = 0
    discarded: int = 0
    skipped: int = 0
    items: list[Retried] = []
    created_before: datetime | None = None
