"""The statuses of a run in one table. Every list of statuses is derived from it: the terminal statuses, the words that
filters accept, the colours of the command line, and the lists in SQL.

To add a status, add a member with its meaning and its next transition, and its row in `STATUSES`. Without the row, the
import of this module fails.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Final, NamedTuple


class Status(StrEnum):
    """The status of a run, as users see it. Succeeded, failed, dead, cancelled and skipped are terminal."""

    SCHEDULED = "scheduled"
    """The run is due in the future. It leaves this status when its time comes."""
    BLOCKED = "blocked"
    """An earlier run, the ordering key or a limit blocks the run. It leaves this status when the last hold is removed.
    """
    QUEUED = "queued"
    """The run waits for a slot. It leaves this status when the dispatcher claims it for a worker."""
    RUNNING = "running"
    """A worker executes the run. The report of the worker ends this status; without a report, a loop of the servers
    does (`lease_rescuer`)."""
    RETRYING = "retrying"
    """An attempt failed, and the run waits for the next one. It leaves this status when the dispatcher claims it: after
    the backoff, or earlier if a user retries it."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """The run failed for good without becoming a dead letter: its error, its retry policy or its delivery (at most
    once) excludes a retry, or it is a workflow or a task of one."""
    DEAD = "dead"
    """The run has exhausted its retries. It is a dead letter and waits for a person."""
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    """The run was never executed, for example because of the overlap policy, the catch-up rule, a calendar or a
    deadline. Its verdict and reason are in the ledger."""


class End(Enum):
    """The kind of end of a terminal status. The ledger, the dead letters and the schedules of jobs that follow another
    job depend on it."""

    SUCCESS = "success"
    FAILURE = "failure"
    """The run was executed and failed for good. A person may retry or discard it. Until then it blocks its ordering
    key, unless the job has `onFailure: continue`."""
    CANCEL = "cancel"
    SKIP = "skip"
    """The run was never executed."""


class Tone(Enum):
    """The visual style in which a status is shown."""

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
    """None if the run is live."""
    has_begun: bool = False
    """True for a live status with at least one claimed attempt."""


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
"""The terminal statuses of runs that were executed: succeeded, failed and dead."""

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
