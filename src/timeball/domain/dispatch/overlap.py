"""What happens to a fire when an earlier run of the same job is still alive."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, assert_never


class Overlap(StrEnum):
    """Decided at the fire time. A run is alive until it is terminal; one that waits for its retry is alive."""

    ALLOW = "allow"
    """Runs side by side."""
    SKIP = "skip"
    """The new fire does not run; the ledger says which run was in its way."""
    QUEUE = "queue"
    """The new fire waits; at most `QUEUE_DEPTH` wait, beyond that it is skipped."""
    QUEUE_ONE = "queue_one"
    """The new fire waits, unless one waits already: then it is skipped."""
    CANCEL_PREVIOUS = "cancel_previous"
    """The new fire has the earlier run cancelled, and runs once that has ended."""
    TERMINATE_PREVIOUS = "terminate_previous"
    """The same, but the earlier run is killed at once, without the grace that jobs get to stop by themselves."""


class Admission(StrEnum):
    """What the policy says about one fire."""

    RUN = "run"
    WAIT = "wait"
    SKIP = "skip"
    REPLACE = "replace"
    """Wait, and have every earlier run end: those that wait are skipped, the others cancelled."""


QUEUE_DEPTH: Final = 1_000
REPLACING: Final = frozenset({Overlap.CANCEL_PREVIOUS, Overlap.TERMINATE_PREVIOUS})
TAKEN_OVER: Final = "a later fire took its place"


def admit(policy: Overlap, alive: int, waiting: int) -> Admission:
    """Decide about a fire, given the job's other live runs and how many of these wait for their turn."""
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
    """How many runs may wait behind a live one."""
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
    return f"run {successor} took its place (overlap {policy})"
