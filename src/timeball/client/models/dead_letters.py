"""Dead letters, and what came of retrying or discarding them."""

from __future__ import annotations

from datetime import datetime

from timeball.client.models.answer import Answer
from timeball.client.models.runs import Retried


class DeadGroup(Answer, frozen=True):
    """Dead letters with the same error."""

    count: int
    fingerprint: str | None = None
    kind: str | None = None
    message: str | None = None
    jobs: int = 0
    """How many jobs they are of."""
    first_at: datetime | None = None
    last_at: datetime | None = None
    example_run_id: str | None = None


class DeadGroups(Answer, frozen=True):
    items: list[DeadGroup]
    counted: int = 0
    more: bool = False
    """There are older dead letters that were not counted."""


class Retrial(Answer, frozen=True):
    """What came of retrying dead letters; of a dry run, only how many there are."""

    matched: int = 0
    retried: int = 0
    skipped: int = 0
    items: list[Retried] = []
    """Each of them, if they were not too many."""
    created_before: datetime | None = None


class Discarding(Answer, frozen=True):
    """What came of discarding dead letters; of a dry run, only how many there are."""

    matched: int = 0
    discarded: int = 0
    skipped: int = 0
    items: list[Retried] = []
    created_before: datetime | None = None
