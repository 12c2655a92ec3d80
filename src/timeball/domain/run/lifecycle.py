"""The life of a run: its states, the events that move it, and every transition there is, in one table.

Three live states are stored; what a user sees (`Status`) follows from them and the time, so that nothing has to
be written when the clock passes the fire time:

    stored      shown as
    READY       scheduled (its time has not come) · queued (it waits for a slot) · retrying (it failed before)
    BLOCKED     blocked (an earlier run, its turn, or a limit holds it) · scheduled (its time has not come)
    RUNNING     running
    terminal    succeeded · failed · dead · cancelled · skipped, in the history, for good
"""

from __future__ import annotations

from enum import IntFlag, StrEnum
from typing import Annotated, Final, assert_never

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from timeball.domain.instant import MINUTE, SECOND, Micros
from timeball.domain.run.status import Status
from timeball.domain.task import retry
from timeball.domain.task.retry import Delivery, Retry

LEASE: Final = 15 * SECOND
"""How long a worker's session lasts after a beat."""


class State(StrEnum):
    """Where a live run stands in the store."""

    READY = "ready"
    """May be claimed from `eligible_at` on. The dispatcher moves it to RUNNING; cancel and edit end it."""
    BLOCKED = "blocked"
    """Something holds it back, see `Hold`. It is READY when nothing does any more; the planner may skip it."""
    RUNNING = "running"
    """Claimed by a worker under a token. The worker's report or the rescuer ends or repeats it."""


class Hold(IntFlag):
    """Why a run is BLOCKED. Each kind comes and goes under a lock of its own."""

    OVERLAP = 1
    """An earlier run of its job is alive. Under the job's lock."""
    TURN = 2
    """Another run has the turn under its ordering key. Under the key's lock."""
    GATE = 4
    """It waits for a permit, a token or a host. Under the gate's lock."""


class Event(StrEnum):
    CLAIM = "claim"
    UNBLOCK = "unblock"
    BLOCK = "block"
    GIVE_BACK = "give_back"
    RETRY = "retry"
    SUCCEED = "succeed"
    GIVE_UP = "give_up"
    EXHAUST = "exhaust"
    CANCEL = "cancel"
    SKIP = "skip"


TRANSITIONS: Final[dict[tuple[State, Event], State | Status]] = {
    (State.READY, Event.CLAIM): State.RUNNING,
    (State.READY, Event.BLOCK): State.BLOCKED,
    (State.READY, Event.CANCEL): Status.CANCELLED,
    (State.READY, Event.SKIP): Status.SKIPPED,
    (State.BLOCKED, Event.UNBLOCK): State.READY,
    (State.BLOCKED, Event.CANCEL): Status.CANCELLED,
    (State.BLOCKED, Event.SKIP): Status.SKIPPED,
    (State.RUNNING, Event.SUCCEED): Status.SUCCEEDED,
    (State.RUNNING, Event.RETRY): State.READY,
    (State.RUNNING, Event.GIVE_BACK): State.READY,
    (State.RUNNING, Event.GIVE_UP): Status.FAILED,
    (State.RUNNING, Event.EXHAUST): Status.DEAD,
    (State.RUNNING, Event.CANCEL): Status.CANCELLED,
}
"""Whatever is not here does not happen. Terminal states have no row: they are final."""


def status(state: State, *, attempt: int, due_at: Micros, eligible_at: Micros, now: Micros) -> Status:
    """What a live run is shown as. `attempt` counts the attempts that were claimed so far."""
    match state:
        case State.RUNNING:
            return Status.SCHEDULED if due_at > now else Status.RUNNING
        case State.BLOCKED:
            return Status.SCHEDULED if due_at > now else Status.BLOCKED
        case State.READY:
            if attempt:
                return Status.RETRYING
            return Status.SCHEDULED if eligible_at > now else Status.QUEUED
        case _:
            assert_never(state)


class Failure(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Why an attempt failed, for people (`message`) and for the retry policy (the rest)."""

    kind: str
    """`exit`, `http`, `exception`, `timeout`, `lost` (its worker died or left), `worker` (it could not be
    started), or `invalid` (no worker may execute it as it is written: it fails for good)."""
    message: str
    exit_code: int | None = None
    status: int | None = None
    exceptions: tuple[str, ...] = ()
    """Qualified names of the exception's class and its bases, most specific first."""
    retry_after: Micros | None = None
    """The target asked for this wait (HTTP 429 or 503 with Retry-After). It ends at the cap of the job's retries."""


class Succeeded(Struct, frozen=True, tag="succeeded"):
    result: Raw | UnsetType = UNSET
    """JSON, if the attempt returned something."""


class Failed(Struct, frozen=True, tag="failed"):
    failure: Failure


class Cancelled(Struct, frozen=True, tag="cancelled"):
    """The worker stopped it because it was told to."""


class Released(Struct, frozen=True, tag="released", omit_defaults=True):
    """Handed back without having been (completely) executed: a drain, or a worker that lacked something to begin it.
    Costs no attempt, but ends a run that is delivered at most once if the attempt may have begun."""

    wait: Annotated[Micros, Meta(ge=0, le=MINUTE)] = 0
    """How long it makes no sense to try again."""
    begun: bool = True
    """False: its worker knows that nothing of it began, also if the worker has reported a start. True: that depends on
    whether a start is known."""


class Lost(Struct, frozen=True, tag="lost", omit_defaults=True):
    """The worker's lease lapsed. Counts as an attempt, repeated without backoff unless delivered at most once."""

    unreported: bool = False
    """The worker is alive, and has not reported the end of the attempt by `report_due_at`."""


Outcome = Succeeded | Failed | Cancelled | Released | Lost

LOST: Final = Failure(kind="lost", message="the worker stopped answering and its lease lapsed")
UNREPORTED: Final = Failure(
    kind="lost",
    message="its worker is alive, but did not report its end within timeout, grace and lease; it may or may not have"
    " done its work",
)
SILENT: Final = Failure(kind="lost", message="its worker fell silent; it may or may not have done its work")
INVALID: Final = "invalid"
"""The kind of failures that no other try can heal, whatever the retry policy says."""
INTERRUPTED: Final = Failure(
    kind="lost", message="its worker was stopped while it ran; it may or may not have done its work"
)


class Transition(Struct, frozen=True):
    """What to write about a run that is RUNNING now."""

    event: Event
    eligible_at: Micros = 0
    """When it may be claimed again, for RETRY and GIVE_BACK."""
    failure: Failure | None = None

    @property
    def to(self) -> State | Status:
        return TRANSITIONS[State.RUNNING, self.event]


def report_due_at(
    *,
    started_at: Micros | None,
    claimed_at: Micros,
    timeout: Micros,
    grace: Micros,
    stood_still: Micros = 0,
) -> Micros:
    """When the end of an attempt is overdue although its worker is alive. Its worker stops it after `timeout` and ends
    it by force after `grace`; a lease more is for the report. An attempt whose start is unknown may have started up to
    a lease after it was claimed. While it made room for another run, its timeout stood still."""
    begun = claimed_at + LEASE if started_at is None else started_at
    return begun + stood_still + timeout + grace + LEASE


def settle(
    outcome: Outcome,
    *,
    attempt: int,
    started: bool,
    cancel_requested: bool,
    policy: Retry,
    delivery: Delivery,
    now: Micros,
    spread: float,
    letters: bool = True,
) -> Transition:
    """Decide what becomes of a RUNNING run. Pure: the store persists the answer under the run's token.

    A requested cancel wins over everything, also over a success that was already on its way. `started` tells whether
    an attempt that was handed back may have begun its work. `letters`: a person is to deal with what is exhausted;
    else it just fails, and others go on from there.
    """
    exhausted = Event.EXHAUST if letters else Event.GIVE_UP
    if cancel_requested:
        return Transition(Event.CANCEL)
    if delivery == "at_most_once" and (reason := _why_not_again(outcome, started)) is not None:
        return Transition(Event.GIVE_UP, failure=reason)
    match outcome:
        case Succeeded():
            return Transition(Event.SUCCEED)
        case Cancelled():
            return Transition(Event.CANCEL)
        case Released(wait):
            return Transition(Event.GIVE_BACK, eligible_at=now + wait)
        case Lost(unreported):
            reason = UNREPORTED if unreported else LOST
            if attempt > policy.max_retries:
                return Transition(exhausted, failure=reason)
            return Transition(Event.RETRY, eligible_at=now, failure=reason)
        case Failed(failure):
            if failure.kind == INVALID or retry.gives_up(
                policy, exit_code=failure.exit_code, status=failure.status, exceptions=failure.exceptions
            ):
                return Transition(Event.GIVE_UP, failure=failure)
            if attempt > policy.max_retries:
                return Transition(exhausted, failure=failure)
            wait = retry.delay(policy, attempt, spread, failure.retry_after or 0)
            return Transition(Event.RETRY, eligible_at=now + wait, failure=failure)
        case _:
            assert_never(outcome)


def _why_not_again(outcome: Outcome, started: bool) -> Failure | None:
    """Why a run that is delivered at most once has to end with this attempt; None: the outcome is judged as always."""
    match outcome:
        case Failed(failure):
            return failure
        case Lost(unreported):
            return UNREPORTED if unreported else SILENT
        case Released():
            return INTERRUPTED if started else None
        case Succeeded() | Cancelled():
            return None
        case _:
            assert_never(outcome)
