"""The store of runs: claims, settlements, cancellation, retries and replays, preemption, and gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol, Self

from msgspec import Struct

from timeball.domain.dispatch.fair_share import TenantShare
from timeball.domain.dispatch.preemption import Preemption
from timeball.domain.dispatch.slot_pools import PoolRoom
from timeball.domain.instant import Micros
from timeball.domain.run.lifecycle import Outcome
from timeball.domain.run.run import NewRun
from timeball.domain.run.status import Status
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.ports.attempt import AttemptWithLocks
from timeball.ports.worker_protocol import Ended, LogChunk, Pausing, Progress, Started


class SlotRequest(Struct, frozen=True):
    """The free slots of a worker that has a pending poll, or whose next poll is expected within a moment."""

    session: str
    worker: str
    """The name of the worker."""
    slots: int
    poll: int = 0
    """The number of the pending or expected poll. A run that is claimed for it is delivered with the answer to this
    poll, or released.
    """
    room: PoolRoom | None = None
    """The free slots in the pools of the worker; None: only `slots` bounds the claim. A claim does not change it."""


class Claim(AttemptWithLocks, frozen=True, kw_only=True):
    """An attempt that the store has given to a session."""

    session: str
    poll: int
    """The number of the poll that the run was claimed for."""
    fire_time: Micros
    eligible_at: Micros
    """The attempt must not start before this instant of the store's clock."""
    spec: bytes
    task: bytes | None
    """The JSON of the registered task; None: the spec contains its task."""
    slots: int = 1
    """Number of slots of the worker that the run uses."""
    tenant: str = DEFAULT_TENANT
    pool: str | None = None
    """The pool of the worker in which the run uses slots as well; None: it uses none."""
    traceparent: str | None = None
    """The trace that the run continues; None: it begins one of its own."""


class Claimed(Struct, frozen=True):
    """The result of one claim."""

    claims: list[Claim]
    now: Micros
    """The store's time at or before the moment of the answer. Start delays count from it."""
    again: bool = False
    """True if the claim passed over candidates, for example because they had to wait at a gate or were locked by
    another server: another claim may fill the slots that are left."""
    left: int = 0
    """Number of free slots that the claim did not fill. There may be no further ready run without placement
    requirements, other servers may have locked such runs, or one claim does not fill so many slots."""
    more: bool = False
    """True if the claim reached the maximum number of runs: more runs are probably ready."""
    short: bool = False
    """True if slots are left although runs are ready, because the tenants of these runs have as many running runs as
    they may have."""
    crowded: bool = False
    """True if slots are left although runs may be ready, because the pools of these runs have no free slot."""


class Settlement(AttemptWithLocks, frozen=True, kw_only=True):
    """The end of an attempt. `lifecycle.settle` decides inside the transaction what follows from it."""

    session: str
    """The session that holds the attempt, according to the report or to the row of the run."""
    outcome: Outcome
    started_at: Micros | None
    finished_at: Micros
    spread: float
    """A random number in [0, 1) that spreads the retry delays of runs that fail together."""
    host: str | None = None
    """The host and port that an `http` attempt called."""
    offloaded: int = 0
    """Number of bytes of the result, if the outcome only refers to it."""

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
        """Return the settlement of a claimed or reported attempt."""
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
    """A settlement that took effect."""

    run_id: str
    status: Status | None
    """The terminal status of the run; None: the run is alive, to be retried or because the attempt was released."""
    frees: bool = False
    """True if other runs may be claimable now: the next run of the job or of the ordering key, or runs that wait for a
    permit or a host.
    """
    backfills: bool = False
    """True if the run belongs to a backfill, which may now create another run."""
    is_workflow_task: bool = False
    """True if the run executes a task of a workflow run, which may now advance."""
    upstream_events: bool = False
    """True if the end of the run was stored as an upstream event of another job."""


class Cancelling(Struct, frozen=True):
    """The result of a cancel request for one run."""

    run_id: str
    status: Status
    """CANCELLED: the run ended at once. RUNNING: its worker gets a cancel order. Otherwise the terminal status that the
    run had before.
    """
    token: int | None = None
    """The token of the running attempt; None: no attempt is running."""
    started: bool = False
    """True if the running attempt is known to have started."""


class Wanted(StrEnum):
    """What the worker of a session is to do with an attempt that it holds."""

    GO_ON = "go_on"
    """Continue: cancellation was not requested."""
    STOP = "stop"
    """Stop it: cancellation was requested."""
    DIE = "die"
    """Stop it at once, without the grace in which jobs may stop by themselves."""


class WorkerOrders(Struct, frozen=True):
    """All cancels and drains that are ordered now, for the workers of all servers."""

    cancels: list[tuple[str, int, bool]] = []
    """All RUNNING attempts whose cancellation was requested: session, token, and True if the attempt gets no grace."""
    drains: list[str] = []
    """The sessions with a valid lease whose workers were ordered to drain."""


class RunMark(Struct, frozen=True):
    """A fingerprint of a live run. It differs from an earlier one if the state has changed or output was added."""

    state: str
    attempt: int
    token: int | None
    last_place: int | None
    """The position of the last chunk of output, `attempt * 1_000_000 + seq`; None: there is no output."""


class RunStore(Protocol):
    async def run_marks(self, run_ids: Sequence[str]) -> dict[str, RunMark]:
        """Return the marks of live runs by their ids. A run that is left out has ended or does not exist."""
        ...

    def share_workers(self, shares: Mapping[str, TenantShare]) -> None:
        """Set how tenants share the workers, from the next claim on: the weights of the tenants and how many of their
        runs may run at the same time. A tenant that is left out has the weight 1 and no limit."""
        ...

    async def claim(self, wants: Sequence[SlotRequest], ahead: Micros) -> Claimed:
        """Assign READY runs to sessions: first those that are due, by rank, then those that are due within `ahead`,
        until the slots are filled. Each run gets the next attempt number and a new token, and is RUNNING under its
        session. No run is assigned twice, however many servers claim at the same time. A session whose lease has lapsed
        gets nothing. A session gets only runs of the tenants that it serves. If runs of several tenants are ready, each
        tenant gets slots in the ratio of its weight, and its runs are claimed by rank.

        If the call raises `Unavailable`, runs may have been claimed that no server delivers. The next poll of each
        session releases them with `give_back`. A repeated call claims other runs.
        """
        ...

    async def next_eligible_at(self, after: Micros = 0, *, constrained_after: Micros = 0) -> Micros | None:
        """Return when the next READY run becomes eligible, among runs that become eligible after `after`. Runs that
        were eligible before wait for a worker, not for a time. For runs with a placement profile, which not every
        worker can execute, `constrained_after` replaces `after`. None: there is no such run."""
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled | None]:
        """Decide and store the ends of attempts. Return one result per settlement, in order. The guard is: id, attempt,
        token and session are those of the row, and the run is RUNNING. None: the guard failed and nothing was written,
        so a repeated settlement changes nothing.

        - A run with a terminal status moves to the history with its verdict.
        - An attempt that another one follows is kept in the list of attempts.
        - A released attempt does not count as an attempt.
        - If runs of the job may not overlap, its next BLOCKED run becomes READY.
        """
        ...

    async def note(
        self, session: str, started: Sequence[tuple[Started, Micros]], progress: Sequence[Progress]
    ) -> list[int]:
        """Record starts, each with its instant, and progress of attempts that the session holds. Return the tokens of
        the other attempts; nothing is written about these. Only the first start of an attempt is recorded.
        """
        ...

    async def append_logs(self, session: str, chunks: Sequence[LogChunk], now: Micros) -> list[int]:
        """Store output of attempts that the session holds. Return the tokens of the other attempts; nothing is written
        about these. A chunk that is stored already stays as it is.
        """
        ...

    async def request_cancel(self, run_ids: Sequence[str]) -> list[Cancelling | None]:
        """End waiting runs as CANCELLED. Mark RUNNING runs, which can then only end as CANCELLED. For a RUNNING
        workflow run, do the same with the live runs of its tasks. Return one result per id, in order. None: there is no
        such run. A repeated call changes nothing."""
        ...

    async def holding(self, session: str) -> dict[int, Wanted]:
        """Return the tokens of all attempts that the session holds, and what the session is to do with each."""
        ...

    async def held(self, session: str, attempts: Sequence[tuple[str, int, int]]) -> set[tuple[str, int, int]]:
        """Return those of the attempts, given by run id, attempt number and token, that the session holds now."""
        ...

    async def worker_orders(self) -> WorkerOrders:
        """Return all orders for workers."""
        ...

    async def retry_now(self, run_ids: Sequence[str]) -> list[bool]:
        """Make runs that wait for a retry eligible now. Return one result per id, in order. False: the run does not
        wait for a retry, and nothing was changed.
        """
        ...


class RepeatStore(Protocol):
    """Retries and replays of finished runs, at the request of users. A finished run can be retried once, by a run that
    takes its place. It can be replayed any number of times; each replay is an additional run.
    """

    async def repeat(self, pairs: Sequence[tuple[str, NewRun]]) -> list[Status | None]:
        """Insert each run as the retry of a finished run, whose id comes first in the pair. Return the status of each
        new run, in order. The overlap policy decides as in `trigger`; if it skips a run (SKIPPED), nothing is written,
        and the finished run can be retried later. None: the old run has not finished, was retried by another run, or
        its job is cancelled. A repeated call with the same new ids returns their statuses.
        """
        ...

    async def repeat_dead_letters(self, pairs: Sequence[tuple[str, NewRun]]) -> list[Status | None]:
        """Insert each run as the retry of a finished run, as `repeat` does, but only if the finished run is a dead
        letter. A discarded run is not a dead letter any more."""
        ...

    async def replay(self, pairs: Sequence[tuple[str, NewRun]], since: str) -> list[Status | None]:
        """Insert each run as a replay of a finished run, whose id comes first in the pair. A finished run whose last
        replay has an id at or after `since` is not replayed again, so that a bulk replay can be repeated. The overlap
        policy decides as in `repeat`. Return the status of each new run, in order; None: nothing was inserted.
        """
        ...

    async def discard(self, run_ids: Sequence[str]) -> list[bool]:
        """Discard dead and failed runs that were neither retried nor discarded. They leave the dead letters and stay in
        the history; an ordering key that such a run holds passes to the next run. Return one result per id, in order.
        False: the run is not of that kind, and nothing was changed.
        """
        ...


class PreemptionStore(Protocol):
    async def preempt(self) -> bool:
        """Store a preemption order for one running attempt that allows it, if a run of a higher priority waits that
        fits on the slots of the attempt, and no other attempt is preempted for that run. The guard is: id, attempt and
        token are those of the row, and the run is RUNNING.

        Return True if a running attempt allows preemption, or a preemption is open. False: the caller need not call
        again soon.
        """
        ...

    async def pause_orders(self) -> list[tuple[str, int, int]]:
        """Return all preemption orders that the worker has not answered: session, token and number."""
        ...

    async def note_pauses(self, session: str, pauses: Sequence[tuple[Pausing, Micros]]) -> list[int]:
        """Record the answers to preemption orders, each with its instant, for attempts that the session holds. Return
        the tokens of the other attempts; nothing is written about these.
        """
        ...

    async def preemptions(self, run_id: str) -> list[Preemption]:
        """Return all preemptions of a run."""
        ...


class GateStore(Protocol):
    async def open_gates(self, limit: int) -> int:
        """Let runs pass gates that time has opened: a rate limit has a token again, or the pause of a circuit breaker
        is over. At most `limit` gates are checked. Return the number of gates that were checked.
        """
        ...

    async def next_look_at(self) -> Micros | None:
        """Return when the next gate must be checked; None: no gate opens by time."""
        ...

    async def expire(self, limit: int) -> int:
        """End up to `limit` runs that did not start before their deadline as SKIPPED. Return how many were ended."""
        ...

    async def next_expiry(self) -> Micros | None:
        """Return when the next start deadline of a waiting run passes; None: no waiting run has one."""
        ...

    async def forget_unused(self, limit: int) -> None:
        """Delete unused gates, ordering keys, placement profiles and planning failures, at most `limit` of each, and
        preemptions that ended 90 days ago or earlier.
        """
        ...
