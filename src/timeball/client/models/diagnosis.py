"""The ledger of a job, and reasons why a job or a run is where it is."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from timeball.client.models.answer import Answer
from timeball.client.models.runs import Lateness


class LedgerEntry(Answer, frozen=True):
    """What became of one due instant, or of `count` consecutive ones from `fire_time` to `fire_until`."""

    fire_time: datetime
    verdict: str
    fire_until: datetime | None = None
    count: int = 1
    reason: str | None = None
    run_id: str | None = None
    late_ms: float | None = None
    lateness: Lateness | None = None
    status: str | None = None
    attempts: int = 0


class Ledger(Answer, frozen=True):
    due: int
    counts: dict[str, int]
    items: list[LedgerEntry] = []
    next_cursor: str | None = None

    @property
    def balanced(self) -> bool:
        """Whether every due instant is accounted for."""
        return self.due == sum(self.counts.values())

    def joined(self, page: Ledger) -> Ledger:
        """With the entries of the page that follows."""
        return replace(self, items=[*self.items, *page.items], next_cursor=page.next_cursor)


class Reason(Answer, frozen=True):
    """Why something waits, did not run, or was late."""

    code: str = ""
    text: str = ""
    unblocks: str = ""
    """What would change it."""
    since: datetime | None = None
    until: datetime | None = None
    """When time alone changes it."""
    run_id: str | None = None
    """The other run, where there is one."""


class RunWhy(Answer, frozen=True):
    """Why a run is where it is; the first reason is the one that matters most."""

    run_id: str
    job_id: str = ""
    job_name: str = ""
    status: str = ""
    answer: str = ""
    reasons: list[Reason] = []
    lateness: Lateness | None = None


class JobWhy(Answer, frozen=True):
    """Why a job is where it is."""

    job_id: str
    job_name: str = ""
    state: str = ""
    answer: str = ""
    reasons: list[Reason] = []
    """Of the job itself."""
    run: RunWhy | None = None
    """Its first live run, else the newest that ended."""
    exceptions: list[LedgerEntry] = []
    """The newest fires that did not start on time, newest first."""
