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


class Admission(StrEnum):
    """What the policy says about one fire."""

    RUN = "run"
    WAIT = "wait"
    SKIP = "skip"


QUEUE_DEPTH: Final = 1_000


def admit(policy: Overlap, alive: int, waiting: int) -> Admission:
    """Decide about a fire, given the job's other live runs and how many of these wait for their turn."""
    if alive == 0:
        return Admission.RUN
    match policy:
        case Overlap.ALLOW:
            return Admission.RUN
        case Overlap.SKIP:
            return Admission.SKIP
        case Overlap.QUEUE:
            return Admission.WAIT if waiting < QUEUE_DEPTH else Admission.SKIP
        case _:
            assert_never(policy)


def skip_reason(policy: Overlap, blocker: str) -> str:
    if policy is Overlap.QUEUE:
        return f"{QUEUE_DEPTH} runs were already waiting behind run {blocker}"
    return f"run {blocker} was still running"
