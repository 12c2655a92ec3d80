"""The store of runs: who gets them, how they end, and what becomes of them then."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol, Self

from msgspec import Struct

from timeball.domain.dispatch.preemption import Preemption
from timeball.domain.instant import Micros
from timeball.domain.run.lifecycle import Outcome
from timeball.domain.run.run import NewRun
from timeball.domain.run.status import Status
from timeball.ports.attempt import AttemptWithLocks
from timeball.ports.worker_protocol import Ended, LogChunk, Pausing, Progress, Started


class SlotRequest(Struct, frozen=True):
    session: str
    worker: str
    slots: int
    poll: int = 0
    """The number of the poll that waits: what is claimed for it is for nobody else."""


class Claim(AttemptWithLocks, frozen=True, kw_only=True):
    session: str
    poll: int
    fire_time: Micros
    eligible_at: Micros
    spec: bytes
    task: bytes | None
    slots: int = 1
    """How many of its worker's it takes."""


class Claimed(Struct, frozen=True):
    claims: list[Claim]
    now: Micros
    """The store's time at or before the moment this was answered: delays count from it."""
    again: bool = False
    """Some runs were put aside to wait, or somebody else looked at them: others may fill the slots that are left."""
    left: int = 0
    """Slots that any run could have had: none is ready, somebody else had his hands on them, or they are too many for
    one claim."""
    more: bool = False
    """It handed out as much as one claim may: there is probably more to be had."""


class Settlement(AttemptWithLocks, frozen=True, kw_only=True):
    """The end of an attempt, to be judged by `lifecycle.settle` inside the transaction."""

    session: str
    """Which holds the attempt, as the report or the row says."""
    outcome: Outcome
    started_at: Micros | None
    finished_at: Micros
    spread: float
    """A random number in [0, 1) for the backoff."""
    host: str | None = None
    """The host that an `http` attempt called."""

    @classmethod
    def of(
        cls,
        attempt: AttemptWithLocks | Ended,
        session: str,
        outcome: Outcome,
        started_at: Micros | None,
        finished_at: Micros,
        spread: float = 0.0,
        host: str | None = None,
    ) -> Self:
        return cls(
            run_id=attempt.run_id,
            job_id=attempt.job_id,
            attempt=attempt.attempt,
            token=attempt.token,
            session=session,
            serial=attempt.serial,
            turn=attempt.turn,
            outcome=outcome,
            started_at=started_at,
            finished_at=finished_at,
            spread=spread,
            host=host,
        )


class Settled(Struct, frozen=True):
    """The transition took effect; None status: the run lives on (retry, given back)."""

    run_id: str
    status: Status | None
    frees: bool = False
    """Whether others may be claimable now that could not be before: the next of its job, or under one of its keys."""
    backfills: bool = False
    """It was a run of a backfill, which may have room for another."""
    woven: bool = False
    """Whether it is a task of a workflow run, which may go on now."""
    upstream_events: bool = False
    """Whether another job follows, which fires now."""


class Cancelling(Struct, frozen=True):
    """What a cancel did to one run."""

    run_id: str
    status: Status
    """CANCELLED: ended at once. RUNNING: asked its worker. Else the terminal status it already had."""
    token: int | None = None
    started: bool = False
    """Whether its attempt is known to have started."""


class Wanted(StrEnum):
    """What a held attempt is to do."""

    GO_ON = "go_on"
    STOP = "stop"
    """Somebody cancelled it."""
    DIE = "die"
    """The same, at once: without the grace that jobs get."""


class RunMark(Struct, frozen=True):
    """Where a live run stands; another mark, another state or more output."""

    state: str
    attempt: int
    token: int | None
    last_place: int | None
    """Of its output: `attempt * 1_000_000 + seq`."""


class RunStore(Protocol):
    async def run_marks(self, run_ids: Sequence[str]) -> dict[str, RunMark]:
        """Of live runs, what differs once something of them changed. A run without a mark has ended, or is gone."""
        ...

    async def claim(self, wants: Sequence[SlotRequest], ahead: Micros) -> Claimed:
        """Hand out READY runs: those due by rank, then those due within `ahead`, one per slot. Each gets the next
        attempt number and a fresh token and is RUNNING for its session. Never the same run twice, however many
        claim at once; sessions whose lease lapsed get nothing."""
        ...

    async def next_eligible_at(self, after: Micros = 0, *, choosy_after: Micros = 0) -> Micros | None:
        """When the earliest READY run may be claimed, of those that may be after an instant: those before wait for a
        worker that is not there. `choosy_after` is that instant for runs that not every worker can take."""
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled | None]:
        """Judge and persist, guarded by id, attempt, token, session and RUNNING; None: stale, nothing was written. A
        terminal run moves to the history with its verdict; an attempt that is followed by another is kept; given back
        costs no attempt; the next BLOCKED run of a serial job becomes READY."""
        ...

    async def note(
        self, session: str, started: Sequence[tuple[Started, Micros]], progress: Sequence[Progress]
    ) -> list[int]:
        """Record starts (with the instant) and progress of held attempts; answers the tokens that are stale."""
        ...

    async def append_logs(self, session: str, chunks: Sequence[LogChunk], now: Micros) -> list[int]:
        """Keep output of attempts that a session holds; answers the stale tokens. A chunk that is already there is
        left alone."""
        ...

    async def request_cancel(self, run_ids: Sequence[str]) -> list[Cancelling | None]:
        """End waiting runs as CANCELLED; mark RUNNING ones, whose only end is then `cancelled`. None: no such run."""
        ...

    async def holding(self, session: str) -> dict[int, Wanted]:
        """Tokens of the session's attempts, each with what is wanted of it."""
        ...

    async def held(self, session: str, attempts: Sequence[tuple[str, int, int]]) -> set[tuple[str, int, int]]:
        """Those that the session holds now, of attempts given by run, number and token."""
        ...

    async def cancel_orders(self) -> list[tuple[str, int, bool]]:
        """Session and token of every RUNNING attempt that is to be cancelled, and whether at once."""
        ...

    async def hurry(self, run_ids: Sequence[str]) -> list[bool]:
        """Make waiting retries eligible now. False: it does not wait for a retry."""
        ...


class RepeatStore(Protocol):
    """What people do with runs that ended. A retry takes a run's place, once; a replay is one more run like it."""

    async def repeat(self, pairs: Sequence[tuple[str, NewRun]]) -> list[Status | None]:
        """Insert each run as the successor of a finished one, given by its id, once: overlap as in `trigger`, but what
        it forbids is not recorded (SKIPPED), and leaves the old run to be repeated later. None: the old one is not
        finished, was repeated already, or its job is cancelled."""
        ...

    async def repeat_letters(self, pairs: Sequence[tuple[str, NewRun]]) -> list[Status | None]:
        """The same, but only of dead letters: a run that was discarded is none any more."""
        ...

    async def replay(self, pairs: Sequence[tuple[str, NewRun]], since: str) -> list[Status | None]:
        """Insert each run as a replay of a finished one, but none of those that were replayed here by a run whose id
        is `since` or later: so one replay of many can be repeated. Overlap as in `repeat`."""
        ...

    async def discard(self, run_ids: Sequence[str]) -> list[bool]:
        """Take dead and failed runs that nobody dealt with yet off the dead letters; they stay in the history.
        False: it is none, or not any more."""
        ...


class PreemptionStore(Protocol):
    async def preempt(self) -> bool:
        """Ask one running attempt that allows it to make room, if a run of a higher class waits which then fits, and
        nobody makes room for that one yet. Guarded by id, attempt, token and RUNNING. Whether there is anybody who
        could make room, or does: else there is nothing to look at soon."""
        ...

    async def pause_orders(self) -> list[tuple[str, int, int]]:
        """Session, token and number of every order that its worker has not answered."""
        ...

    async def note_pauses(self, session: str, pauses: Sequence[tuple[Pausing, Micros]]) -> list[int]:
        """Record what became of orders (with the instant); answers the tokens that are stale."""
        ...

    async def preemptions(self, run_id: str) -> list[Preemption]:
        """Every time that a run made room."""
        ...


class GateStore(Protocol):
    async def open_gates(self, limit: int) -> int:
        """Let runs go on that wait at gates whose time has come: a rate has a token again, a host had its rest. How
        many gates were looked at."""
        ...

    async def next_look_at(self) -> Micros | None:
        """When the earliest gate has to be looked at."""
        ...

    async def expire(self, limit: int) -> int:
        """End runs that did not start by their deadline as SKIPPED; how many."""
        ...

    async def next_expiry(self) -> Micros | None:
        """When the earliest run becomes too late to start."""
        ...

    async def forget_unused(self, limit: int) -> None:
        """Drop gates and turns that nobody uses any more, and preemptions of long ago."""
        ...
