"""The lifecycle of a run: its states, its events, and all its transitions in one table.

The store holds three live states. The status that a user sees (`Status`) follows from the state and the time, so that
nothing has to be written when the fire time passes:

    stored      shown as
    READY       scheduled (due in the future) · queued (waits for a slot) · retrying (an attempt failed)
    BLOCKED     blocked (by an earlier run, an ordering key, or a limit) · scheduled (due in the future)
    RUNNING     running · scheduled (claimed ahead of the due instant)
    terminal    succeeded · failed · dead · cancelled · skipped; these rows are in the history and final
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
"""Microseconds for which a worker's session is valid after a beat."""


class State(StrEnum):
    """The stored state of a live run."""

    READY = "ready"
    """The run may be claimed from `eligible_at` on. A claim makes it RUNNING, a new hold BLOCKED. A cancel or a skip
    ends it."""
    BLOCKED = "blocked"
    """The run has at least one hold, see `Hold`. It becomes READY when the last hold is removed. A cancel or a skip
    ends it."""
    RUNNING = "running"
    """A worker has claimed the run under a fencing token. The report of the worker ends the run or makes it READY
    again; without a report, a loop of the servers does so (`lease_rescuer`)."""


class Hold(IntFlag):
    """The reasons why a run is BLOCKED. Each kind is added and removed under a lock of its own."""

    OVERLAP = 1
    """An earlier run of the same job is alive. Changed under the lock on the job."""
    TURN = 2
    """Another run holds the ordering key. Changed under the lock on the key."""
    GATE = 4
    """The run waits for a permit of a concurrency limit, a token of a rate limit, or the circuit breaker of a host.
    Changed under the lock on the gate."""


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
"""All allowed transitions. Terminal statuses are final, so they have no entry."""


def status(state: State, *, attempt: int, due_at: Micros, eligible_at: Micros, now: Micros) -> Status:
    """Return the status of a live run, as shown to users. `attempt` is the number of attempts claimed so far."""
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
    """The reason why an attempt failed: `message` for people, the other fields for the retry policy."""

    kind: str
    """`exit`, `http`, `exception`, `timeout`, `lost` (the worker died, left or did not report the end), `worker` (the
    worker could not execute the attempt, or its outcome could not be reported or stored), `invalid` (no worker may
    execute the task as it is written, or the tenant may not connect to its target, so that the run fails without
    retry), or `tasks` (tasks of a workflow run failed).
    """
    message: str
    exit_code: int | None = None
    status: int | None = None
    exceptions: tuple[str, ...] = ()
    """Qualified names of the exception's class and its base classes, most specific first."""
    retry_after: Micros | None = None
    """The delay that the target requested (HTTP 429 or 503 with Retry-After). The `cap` of the job's retry policy
    limits it."""


class Succeeded(Struct, frozen=True, tag="succeeded"):
    result: Raw | UnsetType = UNSET
    """The result as JSON, if the attempt returned one."""


class Failed(Struct, frozen=True, tag="failed"):
    failure: Failure


class Cancelled(Struct, frozen=True, tag="cancelled"):
    """The worker stopped the attempt because a server ordered a cancel."""


class Released(Struct, frozen=True, tag="released", omit_defaults=True):
    """The worker returned the attempt without completing it: it drains, or it lacks something to start the attempt.
    A release does not count as an attempt. It ends an at-most-once run if the attempt may have begun."""

    wait: Annotated[Micros, Meta(ge=0, le=MINUTE)] = 0
    """Microseconds before the run may be claimed again."""
    begun: bool = True
    """False if the worker knows that the attempt executed nothing, even if the worker has reported a start. True if the
    worker does not know that: the attempt then counts as begun if its start was reported."""


class Lost(Struct, frozen=True, tag="lost", omit_defaults=True):
    """The lease of the worker lapsed. This counts as an attempt. The run is retried without backoff, unless its
    delivery is at most once, its retries are exhausted, or its cancellation was requested."""

    unreported: bool = False
    """True if the worker is alive but has not reported the end of the attempt by `report_due_at`."""


Outcome = Succeeded | Failed | Cancelled | Released | Lost

LOST: Final = Failure(kind="lost", message="the worker stopped answering and its lease lapsed")
UNREPORTED: Final = Failure(
    kind="lost",
    message="the worker is alive, but did not report the end of the attempt within timeout, grace and lease; the"
    " attempt may or may not have done its work",
)
SILENT: Final = Failure(
    kind="lost", message="the worker stopped answering; the attempt may or may not have done its work"
)
INVALID: Final = "invalid"
"""The kind of failures that a retry cannot fix. They end the run under every retry policy."""
INTERRUPTED: Final = Failure(
    kind="lost", message="the worker was stopped during the attempt; the attempt may or may not have done its work"
)


class Transition(Struct, frozen=True):
    """The decision about a RUNNING run, which the store writes."""

    event: Event
    eligible_at: Micros = 0
    """The instant from which on the run may be claimed again, for RETRY and GIVE_BACK."""
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
    """Return the instant at which the report of an attempt is overdue although its worker is alive. The worker stops
    the attempt after `timeout` and kills it after `grace`; one more lease is for the report. An attempt whose start is
    unknown may have started up to one lease after it was claimed. While the attempt was suspended for another run
    (`stood_still`), its timeout did not advance."""
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
    """Decide the transition of a RUNNING run. The function is pure: the store persists the result, guarded by the
    fencing token of the run.

    A requested cancel overrides every outcome, also a success that is reported at the same time. `started` is True if a
    released attempt may have begun its work. With `letters`, a run that has exhausted its retries becomes a dead letter
    for a person to handle; without it, the run fails and its workflow decides what follows.
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
    """Return the failure that ends an at-most-once run with this attempt. None after a success, after a cancel, and
    after a release before the attempt started: these are handled like those of any other run."""
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
