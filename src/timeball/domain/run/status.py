"""The statuses of a run in one table, from which every list of statuses follows: the terminal ones, the words that
filters accept, the colours of the command line, the lists in SQL.

To add a status: a member with what it means and what moves it on, and its row in `STATUSES`. Without the row, nothing
can be imported.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Final, NamedTuple


class Status(StrEnum):
    """What a user sees. The last five are terminal."""

    SCHEDULED = "scheduled"
    """Its time has not come. Time moves it on."""
    BLOCKED = "blocked"
    """An earlier run, the ordering key or a limit holds it back. The end of what holds it moves it on."""
    QUEUED = "queued"
    """It waits for a slot. The dispatcher moves it on."""
    RUNNING = "running"
    """A worker executes it. The worker's report moves it on, or the lease rescuer."""
    RETRYING = "retrying"
    """An attempt failed; it waits for the next one. Time and the dispatcher move it on, or a retry by hand."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """Gave up by policy: another try could not heal it."""
    DEAD = "dead"
    """Retries exhausted; waits in the dead letters for a person."""
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    """Never ran: the overlap or catch-up rule said so. Its verdict and reason are in the ledger."""


class End(Enum):
    """How a run has ended: what a terminal status means for the ledger, for dead letters and for jobs that follow."""

    SUCCESS = "success"
    FAILURE = "failure"
    """It ran and gave up: a person may retry or discard it, and it blocks its ordering key until then."""
    CANCEL = "cancel"
    SKIP = "skip"
    """It never ran."""


class Tone(Enum):
    """How a status is shown."""

    WAITING = "waiting"
    ATTENTION = "attention"
    ACTIVE = "active"
    GOOD = "good"
    BAD = "bad"
    WORST = "worst"
    MUTED = "muted"


class StatusFacts(NamedTuple):
    tone: Tone
    end: End | None = None
    """None: the run is live."""
    has_begun: bool = False
    """Of a live status: at least one attempt was claimed."""


STATUSES: Final = {
    Status.SCHEDULED: StatusFacts(Tone.WAITING),
    Status.BLOCKED: StatusFacts(Tone.ATTENTION),
    Status.QUEUED: StatusFacts(Tone.WAITING),
    Status.RUNNING: StatusFacts(Tone.ACTIVE, has_begun=True),
    Status.RETRYING: StatusFacts(Tone.ATTENTION, has_begun=True),
    Status.SUCCEEDED: StatusFacts(Tone.GOOD, End.SUCCESS),
    Status.FAILED: StatusFacts(Tone.BAD, End.FAILURE),
    Status.DEAD: StatusFacts(Tone.WORST, End.FAILURE),
    Status.CANCELLED: StatusFacts(Tone.MUTED, End.CANCEL),
    Status.SKIPPED: StatusFacts(Tone.ATTENTION, End.SKIP),
}


def _ended(*ends: End) -> tuple[Status, ...]:
    return tuple(status for status in Status if STATUSES[status].end in ends)


TERMINAL: Final = frozenset(_ended(*End))
LIVE: Final = tuple(status for status in Status if status not in TERMINAL)
SUCCESSFUL: Final = frozenset(_ended(End.SUCCESS))
GAVE_UP: Final = _ended(End.FAILURE)
RAN: Final = frozenset(_ended(End.SUCCESS, End.FAILURE))
"""Of the terminal statuses, those of runs that were executed to their end."""

_NOT_BEGUN: Final = frozenset(status for status in LIVE if not STATUSES[status].has_begun)

WORDS: Final[dict[str, frozenset[Status]]] = {
    **{status.value: frozenset({status}) for status in Status},
    **dict.fromkeys(("success", "completed", "done"), SUCCESSFUL),
    "in_progress": frozenset({Status.RUNNING}),
    **dict.fromkeys(("errored", "error", "failure"), frozenset(GAVE_UP)),
    **dict.fromkeys(("pending", "not_started"), _NOT_BEGUN),
    "canceled": frozenset({Status.CANCELLED}),
}
"""The words that a filter accepts, in lower case."""
