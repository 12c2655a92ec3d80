"""The store: the only truth. A few protocols, batch-first; a single call is a batch of one.

Rules every implementation keeps, proven by one conformance suite:

- A call is one transaction, durable when it returns. It happens completely or not at all; one bad item never
  fails its neighbours.
- Every write states its precondition and returns what it really changed. It never trusts what was read before.
- Due and lease conditions use the store's own clock.
- A call that raised `Unavailable` may have taken effect; each may be repeated as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import astuple

from timeball.domain.backfill import Backfill, BackfillProgress
from timeball.domain.calendar import NamedCalendar
from timeball.domain.circumstances import Circumstances, Standing
from timeball.domain.errors import Invalid
from timeball.domain.fitting import NOTHING, UNLIMITED, Need, Offer
from timeball.domain.instant import Micros
from timeball.domain.job import Job, JobSpec, JobState
from timeball.domain.ledger import Origin, Verdict
from timeball.domain.lifecycle import Failure, Outcome, Status
from timeball.domain.planning import Plan, Span
from timeball.domain.preemption import Preemption
from timeball.domain.record import Finished
from timeball.domain.run import Attempt, NewRun, Run
from timeball.domain.schedule import Window
from timeball.domain.workflow import TaskState, WorkflowTask
from timeball.ports.dispatch import LogChunk, Pausing, Progress, Started
from timeball.ports.housekeeping import HousekeepingStore

T = TypeVar("T")


class Page(Struct, Generic[T], frozen=True):
    items: list[T]
    next_cursor: str | None = None


# --- jobs ---------------------------------------------------------------------------------------------------------


class Idempotency(Struct, frozen=True):
    key: str
    fingerprint: str
    """A hash of the request, to tell a repetition from another request with the same key."""
    answer: bytes
    """What the first request is answered with, and every repetition of it."""


class Submission(Struct, frozen=True, gc=False):
    job: Job
    runs: tuple[NewRun, ...]
    """The first fire, if it is within the horizon."""
    idempotency: Idempotency | None = None
    render: Callable[[Job], bytes] | None = None
    """The answer for its idempotency key once it has a slot in its window."""


class Accepted(Struct, frozen=True, gc=False):
    job_id: str
    placed: Job | None = None
    """The job with the slot that it got, if it has a window."""


class Replayed(Struct, frozen=True):
    """The key was used before, with the same fingerprint: the first answer, and nothing was written."""

    job_id: str
    answer: bytes


class Mismatched(Struct, frozen=True):
    """The key was used before, with another fingerprint. Nothing was written."""

    job_id: str


class NoCalendar(Struct, frozen=True):
    """It refers to a calendar that is not there. Nothing was written."""

    name: str


Answered = Accepted | Replayed | Mismatched
"""What becomes of a request that may have an idempotency key."""


class NeverFires(Struct, frozen=True):
    """The slot that it got in its window leaves it no fire. Nothing was written."""

    error: Invalid


Submitted = Answered | NoCalendar | NeverFires


class Amendment(Struct, frozen=True, kw_only=True):
    """A change of one job, decided from `job` as it was read; applies only while its version is still that one.

    In the transaction, under the job's lock: bump the version; drop the job's future run (READY or BLOCKED, fire time
    after now), uncount it and, if `keep_schedule`, give its instant back to `next_fire_at`; keep the old spec with runs
    that are already due; write the new values; cancel live runs if asked. A job that has fired as often as it may has
    no next fire, whatever is given here.
    """

    job: Job
    spec: JobSpec
    state: JobState
    keep_schedule: bool
    """True: go on with the instants as they were. False: use `next_fire_at` and `anchor` as given here."""
    next_fire_at: Micros | None = None
    anchor: Micros | None = None
    pause_reason: str = ""
    paused_until: Micros | None = None
    closing: tuple[Span, ...] = ()
    """Instants of the old schedule that this change closes without a run."""
    unclosed: Micros | None = None
    """The first one that it does not close. When that has come, the change comes too late."""
    cancel_runs: bool = False


class Amended(Struct, frozen=True):
    job: Job
    cancelled: int = 0
    """Runs that were ended or asked to end."""


class Outdated(Struct, frozen=True):
    """Somebody else changed the job first, or an instant fell due that has to be planned first. Read it again."""


class Fired(Struct, frozen=True):
    """A fire was already handed to a worker for `at`, which has not come, or is that of an end that the job has heard
    of. It belongs to the version it was handed out with: wait until then and amend again, so that nothing acknowledged
    is followed by an older version."""

    at: Micros


class JobFilter(Struct, frozen=True, kw_only=True):
    tenant: str
    status: frozenset[str] = frozenset()
    """Of `scheduled`, `paused`, `completed`, `cancelled`; empty: all."""
    name: str | None = None
    tag: str | None = None
    user_id: str | None = None
    task_id: str | None = None
    workflows: bool = False
    """Only workflows; then not of a `tag`."""


class JobStatus(Struct, frozen=True, gc=False):
    """A job with what only the store can tell of it."""

    job: Job
    status: Literal["scheduled", "paused", "completed", "cancelled"]
    """`completed`: active, but nothing is left to fire and no run is alive."""
    next_run_at: Micros | None
    """Fire time of the earliest run that has not started, else the next fire."""
    warnings: tuple[str, ...] = ()
    """What its owner should know, when it was just created or changed."""


class JobStore(Protocol):
    async def submit(self, submissions: Sequence[Submission]) -> list[Submitted]:
        """Insert jobs with their first runs. Per item, in order. Idempotency keys are unique per tenant; a repetition
        inside one batch is answered like any other. Submitting the same ids again changes nothing: `Accepted`. A job
        with a window gets its slot here."""
        ...

    async def submit_and_claim(
        self, submissions: Sequence[Submission], wants: Sequence[Want]
    ) -> tuple[list[Submitted], list[Claim]]:
        """The same, followed by a claim of what is due by now, in one transaction."""
        ...

    async def answered(self, keys: Sequence[tuple[str, str, str]]) -> list[Replayed | Mismatched | None]:
        """What a request with this tenant, idempotency key and fingerprint is answered as a repetition of an earlier
        one. None: the key is new."""
        ...

    async def slot_for(self, window: Window) -> int:
        """The slot that a job with this window would get now."""
        ...

    async def jobs(self, ids: Sequence[str]) -> dict[str, JobStatus]: ...

    async def list_jobs(
        self, where: JobFilter, cursor: str | None, limit: int, *, may_lag: bool = False
    ) -> Page[JobStatus]:
        """Newest first."""
        ...

    async def amend(self, amendments: Sequence[Amendment]) -> list[Amended | Outdated | Fired]: ...

    async def trigger(self, runs: Sequence[NewRun]) -> list[Status | None]:
        """Insert manual runs under the job's lock and its overlap policy: QUEUED, BLOCKED behind an earlier one, or
        SKIPPED (recorded). None: no such job, or a cancelled one. A future run of a serial job that nobody holds is
        BLOCKED meanwhile: whether it overlaps is decided when it falls due. A pending run of a one-shot job becomes
        serial with it."""
        ...


# --- planning -----------------------------------------------------------------------------------------------------


class PlanStore(Protocol):
    async def due_jobs(self, limit: int) -> list[Job]:
        """Active jobs whose `plan_at` has come, longest overdue first. No lower bound: nothing is ever skipped."""
        ...

    async def commit_plans(self, plans: Sequence[Plan], run_ids: Sequence[Sequence[str]]) -> list[str]:
        """Write each plan where the job is active and its version, next fire and what it is owed still are what the
        plan was made from, and the calendars too; answers the ids of those jobs. Each fire counts in `Job.fired`,
        whatever becomes of it. Under each serial job's lock overlap is decided by `overlap.admit`: for instants that
        are due, now; for a future one, BLOCKED while another run is alive. Runs of the job that are BLOCKED and fell
        due since are decided too. `run_ids` holds one fresh id per step of each plan. A job that follows another goes
        on with what it has heard of by then, whatever the plan knew; a run that comes of an end names that run in
        `retry_of`."""
        ...

    async def hear_echoes(self, limit: int) -> int:
        """Let some jobs that follow others hear of the ends of runs that were written down for them, in the order in
        which those ended: each becomes an instant of the job, whose `next_fire_at` may move. Answers how many jobs did.
        An instant is never before the last change of its job, and no two of a job are the same."""
        ...

    async def echoes(self, job_ids: Sequence[str], most: int) -> dict[str, tuple[Micros, ...]]:
        """The first instants of jobs that follow others which wait to be planned, in order: at most so many of each."""
        ...

    async def cancelled_ahead(self, jobs: Sequence[Job]) -> dict[str, frozenset[Micros]]:
        """The instants from each job's next fire on that have their verdict already: their runs were cancelled before
        an edit let the schedule begin anew."""
        ...

    async def next_plan_at(self) -> Micros | None:
        """When the earliest job has to be planned."""
        ...

    async def pauses_over(self, limit: int) -> list[Job]:
        """Paused jobs whose pause is over, those first that wait the longest."""
        ...

    async def next_resume_at(self) -> Micros | None:
        """When the earliest pause is over, or was."""
        ...


# --- execution ----------------------------------------------------------------------------------------------------


class Want(Struct, frozen=True):
    session: str
    worker: str
    slots: int
    poll: int = 0
    """The number of the poll that waits: what is claimed for it is for nobody else."""


class Claim(Struct, frozen=True, kw_only=True):
    session: str
    poll: int
    run_id: str
    job_id: str
    attempt: int
    token: int
    fire_time: Micros
    eligible_at: Micros
    serial: bool
    turn: tuple[str, str] | None = None
    """Tenant and ordering key, if the run has one."""
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
    """Slots that any run could have had: none is ready, or somebody else had his hands on them."""


class Settlement(Struct, frozen=True, kw_only=True):
    """The end of an attempt, to be judged by `lifecycle.settle` inside the transaction."""

    run_id: str
    job_id: str
    attempt: int
    token: int
    serial: bool
    """A hint: which runs' jobs to lock before the runs themselves. The row tells the truth."""
    turn: tuple[str, str] | None = None
    """The same for ordering keys: tenant and key."""
    outcome: Outcome
    started_at: Micros | None
    finished_at: Micros
    spread: float
    """A random number in [0, 1) for the backoff."""
    host: str | None = None
    """The host that an `http` attempt called."""


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
    echoes: bool = False
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


class RunStore(Protocol):
    async def claim(self, wants: Sequence[Want], ahead: Micros) -> Claimed:
        """Hand out READY runs: those due by rank, then those due within `ahead`, one per slot. Each gets the next
        attempt number and a fresh token and is RUNNING for its session. Never the same run twice, however many
        claim at once; sessions whose lease lapsed get nothing."""
        ...

    async def next_eligible_at(self, after: Micros = 0, *, choosy_after: Micros = 0) -> Micros | None:
        """When the earliest READY run may be claimed, of those that may be after an instant: those before wait for a
        worker that is not there. `choosy_after` is that instant for runs that not every worker can take."""
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled | None]:
        """Judge and persist, guarded by id, attempt, token and RUNNING; None: stale, nothing was written. A terminal
        run moves to the history with its verdict; an attempt that is followed by another is kept; given back costs no
        attempt; the next BLOCKED run of a serial job becomes READY."""
        ...

    async def note(
        self, session: str, started: Sequence[tuple[Started, Micros]], progress: Sequence[Progress]
    ) -> list[int]:
        """Record starts (with the instant) and progress of held attempts; answers the tokens that are stale."""
        ...

    async def append_logs(self, chunks: Sequence[LogChunk], now: Micros) -> list[int]:
        """Keep output of held attempts; answers the stale tokens. A chunk that is already there is left alone."""
        ...

    async def request_cancel(self, run_ids: Sequence[str]) -> list[Cancelling | None]:
        """End waiting runs as CANCELLED; mark RUNNING ones, whose only end is then `cancelled`. None: no such run."""
        ...

    async def holding(self, session: str) -> dict[int, Wanted]:
        """Tokens of the session's attempts, each with what is wanted of it."""
        ...

    async def cancel_orders(self) -> list[tuple[str, int, bool]]:
        """Session and token of every RUNNING attempt that is to be cancelled, and whether at once."""
        ...

    async def hurry(self, run_ids: Sequence[str]) -> list[bool]:
        """Make waiting retries eligible now. False: it does not wait for a retry."""
        ...


# --- runs that ended ----------------------------------------------------------------------------------------------


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


# --- backfills ----------------------------------------------------------------------------------------------------


class BackfillStore(Protocol):
    """Whatever happens to a backfill happens under the lock on its job."""

    async def begin_backfill(self, backfill: Backfill, idempotency: Idempotency | None = None) -> Answered | None:
        """Insert it, once: `Accepted`, with its id, also if it is there already. None: its job is gone or cancelled."""
        ...

    async def backfills_to_advance(self, limit: int) -> list[str]:
        """Those that have room for another run while their job is active, or whose last run ended."""
        ...

    async def advance_backfills(self, ids: Sequence[str]) -> int:
        """Turn the next fires of each into READY runs, as many as there is room for, and move its cursor behind them;
        or, if all of them ended, call it completed. Nothing of one whose job is paused. How many runs were made."""
        ...

    async def cancel_backfill(self, backfill_id: str, reason: str) -> bool:
        """Make no more runs of it, and cancel those that are alive. False: it is not active."""
        ...

    async def backfills(self, ids: Sequence[str]) -> dict[str, BackfillProgress]: ...

    async def list_backfills(
        self, tenant: str, job_id: str | None, cursor: str | None, limit: int, *, may_lag: bool = False
    ) -> Page[BackfillProgress]:
        """Newest first."""
        ...


# --- preemption ---------------------------------------------------------------------------------------------------


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


# --- workflows ----------------------------------------------------------------------------------------------------


NONE: Final[Mapping[str, bytes | None]] = {}


class Woven(Struct, frozen=True):
    """What one look at workflow runs came to."""

    begun: int = 0
    stopped: int = 0
    made: int = 0
    """Runs of tasks."""
    moved: int = 0
    """Tasks that went on in another way: they ended, or were skipped, or got instances."""
    ended: int = 0
    wants: tuple[str, ...] = ()
    """Objects elsewhere without which tasks cannot begin: give them to the next look."""
    last: str = ""
    """The last workflow run that was looked at."""

    def and_(self, other: Woven) -> Woven:
        return Woven(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    @property
    def anything(self) -> bool:
        return any(astuple(self)[:-2])


class TaskOfRun(Struct, frozen=True, kw_only=True):
    """Where a task of a workflow run stands, or one of its instances."""

    name: str
    index: int | None
    """Of the item, of an instance."""
    state: TaskState
    reason: str
    run_id: str | None
    waits: int
    """Tasks that it needs and that have not ended."""
    instances: int | None
    """How many it has; None: it runs once, or has not begun."""
    open: int
    definition: WorkflowTask | None


class WorkflowRun(Struct, frozen=True):
    """The tasks of a workflow run that has begun."""

    run_id: str
    job_id: str
    tenant: str
    tasks: tuple[TaskOfRun, ...]
    """In the order of the workflow."""
    instances: tuple[TaskOfRun, ...]
    """Of all of them, as far as there are not too many."""


class WorkflowStore(Protocol):
    """Workflow runs go on where tasks ended. Whoever looks, and how often: each task gets its run once."""

    async def weave(self, limit: int, large: Mapping[str, bytes | None] = NONE, after: str = "") -> Woven:
        """Begin workflow runs that are due, stop those that were cancelled, and look at no more than so many tasks
        that may run or have ended: make runs, skip, and end workflow runs all of whose tasks have ended. `large` is
        what an earlier look wanted; None: it is gone. Only tasks of workflow runs behind `after` are looked at."""
        ...

    async def next_weaving_at(self) -> Micros | None:
        """When there is something to weave: 0, if there is now."""
        ...

    async def workflow_run(self, run_id: str) -> WorkflowRun | None:
        """None: no such workflow run, or it has not begun."""
        ...

    async def workflow_runs_of(self, run_ids: Sequence[str]) -> dict[str, str]:
        """The workflow runs that these runs are tasks of; of the first of them, if it was repeated."""
        ...


# --- workers ------------------------------------------------------------------------------------------------------


class Worker(Struct, frozen=True, kw_only=True):
    session: str
    name: str
    slots: int
    labels: list[str]
    tasks: list[str]
    version: str
    started_at: Micros
    seen_at: Micros
    lease_until: Micros
    running: int = 0
    used: Need = NOTHING
    """What its runs take of it."""
    cpu: float | None = None
    memory_mb: int | None = None
    dedicated: bool = False
    reserved_for: str | None = None
    """The profile of the run that waits until this worker has room for it."""

    @property
    def offer(self) -> Offer:
        """All that it has to offer."""
        return Offer(
            session=self.session,
            slots=self.slots,
            cpu=UNLIMITED if self.cpu is None else round(self.cpu * 1000),
            memory=UNLIMITED if self.memory_mb is None else self.memory_mb,
            labels=frozenset(self.labels),
            dedicated=self.dedicated,
            reserved_for=self.reserved_for,
        )


class WorkerStore(Protocol):
    async def register(self, worker: Worker, lease: Micros) -> None:
        """A new session with a lease that starts now."""
        ...

    async def renew(self, sessions: Sequence[str], lease: Micros) -> list[str | None]:
        """Extend the leases from now on; the workers' names. None: it lapsed or never was; it stays so."""
        ...

    async def give_back(self, session: str, held: Sequence[int], poll: int) -> int:
        """Give back the session's RUNNING runs that were claimed for polls before this one and whose token is not
        held; how many. Costs no attempt; a run whose cancel was requested ends CANCELLED. A poll that arrives late,
        after the worker sent others, thus never touches what those were answered with."""
        ...

    async def lapsed(self, limit: int) -> list[Settlement]:
        """RUNNING runs whose session's lease lapsed or is gone, as `Lost` settlements (spread 0)."""
        ...

    async def end_session(self, session: str) -> None:
        """Let the lease lapse now and give back everything it holds."""
        ...

    async def forget_sessions(self, seen_before: Micros) -> int:
        """Drop sessions that lapsed before an instant and hold nothing."""
        ...

    async def workers(self) -> list[Worker]:
        """Sessions with a lease, newest first."""
        ...


# --- reading ------------------------------------------------------------------------------------------------------


class RunFilter(Struct, frozen=True, kw_only=True):
    tenant: str
    job_id: str | None = None
    status: frozenset[Status] = frozenset()
    fire_from: Micros | None = None
    fire_until: Micros | None = None
    user_id: str | None = None
    tag: str | None = None
    task_id: str | None = None
    origin: frozenset[Origin] = frozenset()
    fingerprint: str | None = None
    """Of the error with which it gave up."""
    made_before: str | None = None
    """Only ids before this one."""
    unattended: bool = False
    """Of those that ended, only what nobody retried or discarded."""
    dead_letters: bool = False
    """Only dead runs nobody has retried or discarded."""


class Match(Struct, frozen=True):
    """A run that a filter means."""

    run_id: str
    job_id: str
    fire_time: Micros
    status: Status


class RunSpec(Struct, frozen=True):
    """What a run executes, or executed."""

    spec: JobSpec
    edited: bool
    """Somebody edited it for this run; else it is the one its job had."""


class LetterGroup(Struct, frozen=True, kw_only=True):
    """Dead letters with the same error."""

    fingerprint: str | None
    letters: int
    jobs: int
    first_at: Micros
    """When the first of them died."""
    last_at: Micros
    newest: str
    """The run with the newest id among them, and its failure."""
    failure: Failure | None


class LetterGroups(Struct, frozen=True):
    groups: list[LetterGroup]
    counted: int
    """The letters that were looked at, in these groups and others."""
    more: bool
    """There are older ones that were not."""


class LedgerSums(Struct, frozen=True):
    due: int
    counts: dict[Verdict, int]


class LogLine(Struct, frozen=True):
    attempt: int
    seq: int
    stream: str
    at: Micros
    text: str


class ReadStore(Protocol):
    async def runs(self, ids: Sequence[str]) -> dict[str, Run]: ...

    async def list_runs(self, where: RunFilter, cursor: str | None, limit: int, *, may_lag: bool = False) -> Page[Run]:
        """Newest fire time first, ties by id, live and finished alike. A run that ends keeps its place in that
        order, so that pages miss none and tell none twice. A span is meant if it reaches into the filter's times."""
        ...

    async def count_runs(self, where: RunFilter) -> int: ...

    async def match_runs(self, where: RunFilter, after: Match | None, limit: int) -> list[Match]:
        """The first that match of those after this one, oldest fire time first, ties by id."""
        ...

    async def specs(self, run_ids: Sequence[str]) -> dict[str, RunSpec]:
        """What runs execute, live and finished alike; without those whose spec cannot be read. What a run has stays
        what it is, whatever becomes of its job."""
        ...

    async def letter_groups(self, where: RunFilter, limit: int, *, may_lag: bool = False) -> LetterGroups:
        """The largest groups of dead letters, largest first."""
        ...

    async def current_run(self, job_id: str) -> Run | None:
        """The run that started last, else the pending one that is next, else None. Of a workflow, not those of its
        tasks."""
        ...

    async def attempts(self, run_id: str) -> list[Attempt]:
        """The attempts before the last."""
        ...

    async def first_attempts(self, run_ids: Sequence[str]) -> dict[str, Attempt]:
        """The first attempt of each of these runs that has had another."""
        ...

    async def ledger(
        self, job_id: str, since: Micros, until: Micros, cursor: str | None, limit: int, *, may_lag: bool = False
    ) -> Page[Run]:
        """Rows whose instants fall into [since, until), oldest first; only due instants. Future instants are not
        part of it."""
        ...

    async def ledger_sums(self, job_id: str, since: Micros, until: Micros, *, may_lag: bool = False) -> LedgerSums:
        """How many instants fell due and what became of them; a live run counts as `open`."""
        ...

    async def logs(self, run_id: str, attempt: int | None, after: int, limit: int) -> list[LogLine]:
        """Output in order; of one attempt, or of all; `after` is the last (attempt * 1_000_000 + seq) seen."""
        ...


class ArchiveStore(Protocol):
    """What goes to the archive: runs that ended at or after an instant, in the order of their ids. Of runs with large
    results fewer come at once, so that no answer is large."""

    async def finished_in(self, first: str, until: str, since: Micros, limit: int) -> list[Finished]:
        """The next of them whose ids are at or after `first` and before `until`. Nothing: there are no more."""
        ...

    async def output_in(
        self, after: tuple[str, int, int], until: str, since: Micros, limit: int
    ) -> list[tuple[str, LogLine]]:
        """The next pieces of their output, each with its run's id: after this run, attempt and number, and of runs
        before `until`."""
        ...


class LargeStore(Protocol):
    """What rows say about objects that are kept elsewhere, see `domain.large`. A row that would begin to refer to one
    too late is not written: whoever submits, amends or triggers that raises `Unavailable`."""

    async def number(self, fresh: int) -> int:
        """The number of this store, by which its objects are told from those of others: the one it was given first,
        wherever it moves."""
        ...

    async def referred_to(self, kind: str, keys: Sequence[str]) -> set[str]:
        """Those of these objects that a row refers to, or may begin to refer to."""
        ...

    async def replace_output(self, run_id: str, attempt: int, seqs: Sequence[int], key: str) -> bool:
        """Replace all output of an attempt that has ended, which are these pieces, by one that refers to an object.
        False: it is something else by now, and stays."""
        ...


class WhyStore(Protocol):
    """What is the matter? Looks at much, but never at more than so much: it counts up to `MOST_COUNTED`."""

    async def circumstances(self, run_id: str) -> Circumstances | None:
        """All that explains where a run is; None: no such run."""
        ...

    async def standing(self, job_id: str) -> Standing | None:
        """All that explains where a job is; None: no such job."""
        ...


# --- the rest -----------------------------------------------------------------------------------------------------

Role = Literal["admin", "worker"]


class Key(Struct, frozen=True, kw_only=True):
    id: str
    tenant: str
    name: str
    role: Role
    digest: str
    """SHA-256 of the secret, hex: the secret itself is kept nowhere."""
    created_at: Micros
    revoked_at: Micros | None = None


class KeyStore(Protocol):
    async def add_key(self, key: Key) -> None:
        """Adding the same digest again changes nothing."""
        ...

    async def key_by_digest(self, digest: str) -> Key | None:
        """An unrevoked key."""
        ...

    async def keys(self) -> list[Key]: ...

    async def revoke_key(self, key_id: str) -> bool: ...


class RegisteredTask(Struct, frozen=True, kw_only=True):
    id: str
    tenant: str
    spec: dict[str, Any]
    version: int
    updated_at: Micros


class TaskStore(Protocol):
    async def put_task(self, task: RegisteredTask) -> RegisteredTask:
        """Create or replace; the version grows."""
        ...

    async def task(self, tenant: str, task_id: str) -> RegisteredTask | None: ...

    async def list_tasks(self, tenant: str, cursor: str | None, limit: int) -> Page[RegisteredTask]: ...

    async def delete_task(self, tenant: str, task_id: str) -> bool:
        """False: no such task. Raises `Conflict` while a job that is not cancelled refers to it."""
        ...


class CalendarPut(Struct, frozen=True):
    calendar: NamedCalendar
    held_until: Micros | None = None
    """The latest instant for which a worker already has a run that was made under the old one: until then nobody should
    be told that the new one counts."""


class CalendarStore(Protocol):
    """Whoever plans, submits or amends jobs with calendars does so while these stay what they are."""

    async def put_calendar(self, new: NamedCalendar) -> CalendarPut:
        """Create or replace; the version grows, unless nothing changes. In the same transaction, runs of jobs that
        refer to it whose instants have not come are given back to their schedules, and jobs that are owed a fire are
        planned anew."""
        ...

    async def calendars(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], NamedCalendar]:
        """Those that there are, by tenant and name."""
        ...

    async def list_calendars(self, tenant: str, cursor: str | None, limit: int) -> Page[NamedCalendar]: ...

    async def delete_calendar(self, tenant: str, name: str) -> bool:
        """False: no such calendar. Raises `Conflict` while a job that may still fire refers to it."""
        ...


class ForesightStore(Protocol):
    async def firing_jobs(self, tenant: str, after: str, limit: int) -> Page[Job]:
        """Active jobs that have a next fire, oldest first, after an id."""
        ...

    async def mean_durations(self, job_ids: Sequence[str], since: Micros) -> dict[str, float]:
        """The seconds that the last few runs took that succeeded, of those made since a moment, where there are any."""
        ...


class Store(
    JobStore,
    PlanStore,
    RunStore,
    RepeatStore,
    BackfillStore,
    PreemptionStore,
    GateStore,
    WorkflowStore,
    WorkerStore,
    ReadStore,
    ArchiveStore,
    LargeStore,
    WhyStore,
    KeyStore,
    TaskStore,
    CalendarStore,
    ForesightStore,
    HousekeepingStore,
    Protocol,
):
    def now(self) -> Micros:
        """The store's time, or an instant shortly before it; never after it, and never running backwards."""
        ...

    async def open(self) -> None:
        """Connect and migrate. A second embedded store on the same folder raises `Conflict`."""
        ...

    async def close(self) -> None: ...

    async def ping(self) -> None:
        """Raises `Unavailable` unless the store answers."""
        ...

    def listen(self, hint: Hint) -> None:
        """Call `hint(topic)` whenever another server on this store says that there may be something to do.
        Topics are those of `ports.hints`. Lost hints cost at most a tick."""
        ...

    def shout(self, topic: str) -> None:
        """Give that hint to the other servers: soon, coalesced, never inside a transaction."""
        ...


class Hint(Protocol):
    def __call__(self, topic: str) -> None: ...
