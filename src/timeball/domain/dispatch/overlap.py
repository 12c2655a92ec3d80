"""The overlap policies. The policy of a job decides about a fire while an earlier run of the same job is alive."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, assert_never


class Overlap(StrEnum):
    """The overlap policy of a job, applied at the fire time. A run is alive until it is terminal; a run that waits for
    its retry is alive."""

    ALLOW = "allow"
    """The runs execute at the same time."""
    SKIP = "skip"
    """The new fire is skipped. The ledger names the run that was alive."""
    QUEUE = "queue"
    """The run of the new fire waits. If `QUEUE_DEPTH` runs wait already, the new fire is skipped."""
    QUEUE_ONE = "queue_one"
    """The run of the new fire waits. If one run waits already, the new fire is skipped."""
    CANCEL_PREVIOUS = "cancel_previous"
    """The earlier run is cancelled, and the run of the new fire starts when it has ended."""
    TERMINATE_PREVIOUS = "terminate_previous"
    """Like `cancel_previous`, but the earlier run is killed immediately, without the grace period in which it could
    stop by itself."""


class Admission(StrEnum):
    """The decision of the policy about one fire."""

    RUN = "run"
    WAIT = "wait"
    SKIP = "skip"
    REPLACE = "replace"
    """The new run waits, and every earlier run ends: runs that wait because of overlap are skipped, and all other live
    runs of the job are cancelled."""


QUEUE_DEPTH: Final = 1_000
REPLACING: Final = frozenset({Overlap.CANCEL_PREVIOUS, Overlap.TERMINATE_PREVIOUS})
TAKEN_OVER: Final = "a later fire replaced this run"


def admit(policy: Overlap, alive: int, waiting: int) -> Admission:
    """Decide about a fire. `alive` is the number of other live runs of the job, `waiting` the number of them that wait
    because of overlap."""
    if alive == 0:
        return Admission.RUN
    match policy:
        case Overlap.ALLOW:
            return Admission.RUN
        case Overlap.SKIP | Overlap.QUEUE | Overlap.QUEUE_ONE:
            return Admission.WAIT if waiting < room(policy) else Admission.SKIP
        case Overlap.CANCEL_PREVIOUS | Overlap.TERMINATE_PREVIOUS:
            return Admission.REPLACE
        case _:
            assert_never(policy)


def room(policy: Overlap) -> int:
    """Return the maximum number of runs that may wait behind a live run."""
    match policy:
        case Overlap.ALLOW | Overlap.SKIP:
            return 0
        case Overlap.QUEUE:
            return QUEUE_DEPTH
        case Overlap.QUEUE_ONE | Overlap.CANCEL_PREVIOUS | Overlap.TERMINATE_PREVIOUS:
            return 1
        case _:
            assert_never(policy)


def skip_reason(policy: Overlap, blocker: str) -> str:
    match policy:
        case Overlap.QUEUE:
            return f"{QUEUE_DEPTH} runs were already waiting behind run {blocker}"
        case Overlap.QUEUE_ONE:
            return f"another run was already waiting behind run {blocker}"
        case Overlap.CANCEL_PREVIOUS | Overlap.TERMINATE_PREVIOUS:
            return TAKEN_OVER
        case _:
            return f"run {blocker} was still running"


def cancel_reason(policy: Overlap, successor: str) -> str:
    return f"run {successor} replaced this run (overlap {policy})"
