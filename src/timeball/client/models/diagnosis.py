"""Answers with the ledger of a job, and with the reasons for the state of a job or a run."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from timeball.client.models.model import Model
from timeball.client.models.runs import Lateness


class LedgerEntry(Model, frozen=True):
    """The verdict on one fire, or on `count` consecutive fires from `fire_time` to `fire_until`."""

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


class Ledger(Model, frozen=True):
    """The verdicts on the fires of a job, and their sums: `due` fires, and `counts` by verdict."""

    due: int
    counts: dict[str, int]
    items: list[LedgerEntry] = []
    next_cursor: str | None = None

    @property
    def balanced(self) -> bool:
        """True if the counts of all verdicts add up to the due fires."""
        return self.due == sum(self.counts.values())

    def joined(self, page: Ledger) -> Ledger:
        """Return this ledger with the entries of its next page added."""
        return replace(self, items=[*self.items, *page.items], next_cursor=page.next_cursor)


class Reason(Model, frozen=True):
    """One reason why a job or a run waits, did not run, or was late."""

    code: str = ""
    text: str = ""
    unblocks: str = ""
    """What would resolve this reason."""
    since: datetime | None = None
    until: datetime | None = None
    """The time at which this reason ends without any action, if there is one."""
    run_id: str | None = None
    """The other run that this reason refers to, if there is one."""


class RunWhy(Model, frozen=True):
    """The reasons for the state of a run, the most important first."""

    run_id: str
    job_id: str = ""
    job_name: str = ""
    status: str = ""
    answer: str = ""
    reasons: list[Reason] = []
    lateness: Lateness | None = None


class JobWhy(Model, frozen=True):
    """The reasons for the state of a job."""

    job_id: str
    job_name: str = ""
    state: str = ""
    answer: str = ""
    reasons: list[Reason] = []
    """Reasons that concern the job itself."""
    run: RunWhy | None = None
    """The first live run of the job; if there is none, the newest run that has ended."""
    exceptions: list[LedgerEntry] = []
    """The newest fires that did not start on time, newest first."""
