"""What the API answers with, as typed values. Fields a newer server adds are ignored; none is ever required but the
ids, so that an older client can read them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

TERMINAL: Final = frozenset({"succeeded", "failed", "dead", "cancelled", "skipped"})


class Answer(Struct, frozen=True, rename="camel", kw_only=True):
    """Shared shape: camelCase on the wire, attributes here."""


class Job(Answer, frozen=True):
    job_id: str
    name: str = ""
    status: str = ""
    """`scheduled`, `paused`, `completed` or `cancelled`."""
    version: int = 1
    next_fire_at: datetime | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    description: str = ""
    task: dict[str, Any] | None = None
    task_id: str | None = None
    parameters: dict[str, Any] = {}
    schedule: dict[str, Any] = {}
    retry: dict[str, Any] = {}
    priority: str | int = "medium"
    timeout: str | int | None = None
    grace: str | int | None = None
    overlap: str = "queue"
    catch_up: str = "all"
    catch_up_window: str | int = "1h"
    start_at: datetime | None = None
    end_at: datetime | None = None
    max_runs: int | None = None
    jitter: str | int | None = None
    start_deadline: str | int | None = None
    ordering_key: str | None = None
    on_failure: str = "block"
    concurrency: dict[str, Any] | None = None
    rate_limit: dict[str, Any] | None = None
    resources: dict[str, Any] | None = None
    runs_on: list[str] = []
    slot: str | None = None
    """The time of day that it got in its window."""
    calendars: list[str] = []
    excluded: str | None = None
    delivery: str = "at_least_once"
    preemptible: bool = False
    result_location: str | None = None
    tags: list[str] = []
    user_id: str = ""
    pause_reason: str = ""
    paused_until: datetime | None = None
    """When it is resumed by itself."""
    warnings: list[str] = []
    """In the answer to a create or an update: that no worker which is alive could run it, for example."""


class Failure(Answer, frozen=True):
    """Why an attempt failed."""

    kind: str = ""
    message: str = ""
    exit_code: int | None = None
    status: int | None = None


class Attempt(Answer, frozen=True):
    attempt: int
    executor_id: str | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    error: Failure | None = None


class Lateness(Answer, frozen=True):
    """Where the time went until a run started, in milliseconds; the parts add up to the total."""

    scheduler_ms: float = 0
    """Until there was a run to start."""
    blocked_ms: float = 0
    """While an earlier run, its turn or a limit held it back."""
    queue_ms: float = 0
    """Until a worker had room for it."""
    worker_ms: float = 0
    """Until its worker started it."""
    total_ms: float = 0

    def __str__(self) -> str:
        """The parts that count: `blocked 2400 ms + worker 3 ms`."""
        parts = {
            "scheduler": self.scheduler_ms,
            "blocked": self.blocked_ms,
            "queue": self.queue_ms,
            "worker": self.worker_ms,
        }
        return " + ".join(f"{name} {round(length)} ms" for name, length in parts.items() if length >= 1)


class Preemption(Answer, frozen=True):
    """One time that a run made room for another."""

    by: str = ""
    asked_at: datetime | None = None
    paused_at: datetime | None = None
    """When it stopped; None: it was handed back to start anew, or has not stopped yet."""
    resumed_at: datetime | None = None


class Run(Answer, frozen=True):
    run_id: str
    job_id: str = ""
    job_name: str = ""
    status: str = ""
    """`scheduled`, `blocked`, `queued`, `running` or `retrying`; `succeeded`, `failed`, `dead`, `cancelled` or
    `skipped` for good."""
    fire_time: datetime | None = None
    due_at: datetime | None = None
    """When it should start, if jitter moves that away from the fire time."""
    start_by: datetime | None = None
    """When it is too late to start."""
    blocked_by: list[str] = []
    """Why it is blocked: `overlap`, `turn`, `gate:limit:KEY`, `gate:rate:KEY` or `gate:host:NAME`."""
    ordering_key: str | None = None
    origin: str = ""
    attempt: int = 0
    executor_id: str | None = None
    fencing_token: int | None = None
    """Of the last attempt: what it wrote counts only if it wrote it under this one."""
    start_time: datetime | None = None
    end_time: datetime | None = None
    progress: str | float | None = None
    progress_note: str = ""
    error: Failure | None = None
    verdict: str = ""
    reason: str | None = None
    late_ms: float | None = None
    lateness: Lateness | None = None
    cancel_requested_at: datetime | None = None
    cancel_reason: str | None = None
    """Why it is being cancelled, while it is; then it is the `reason`."""
    retry_of: str | None = None
    retried_as: str | None = None
    replay_of: str | None = None
    followed_run_id: str | None = None
    """The run after whose end it came, if its job follows another."""
    backfill_id: str | None = None
    """The backfill that it belongs to."""
    fingerprint: str | None = None
    """The same for all runs that gave up with the same error."""
    discarded_at: datetime | None = None
    """When somebody took it off the dead letters."""
    preempted_by: str | None = None
    """The run that it makes room for: it stands still, or is about to."""
    preemptions: list[Preemption] = []
    result: Any = None
    archived: bool = False
    """It has left the store for the archive: nothing can be done with it any more."""
    attempts: list[Attempt] = []

    @property
    def done(self) -> bool:
        """Whether it has ended, one way or another: this status is final."""
        return self.status in TERMINAL

    @property
    def succeeded(self) -> bool:
        return self.status == "succeeded"


class Backfill(Answer, frozen=True):
    """The fires of a past range, and what became of them: `total` = `done` + `running` + `remaining`."""

    backfill_id: str
    job_id: str = ""
    job_name: str = ""
    since: datetime | None = field(name="from", default=None)
    until: datetime | None = field(name="to", default=None)
    parallelism: int = 1
    status: str = ""
    """`running`, or `paused` with its job; `completed` or `cancelled` for good."""
    reason: str = ""
    total: int = 0
    done: int = 0
    """Fires whose run ended: `succeeded` + `failed` + `cancelled`."""
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    running: int = 0
    """Runs that are alive."""
    remaining: int = 0
    """Fires that are not runs yet."""
    next_fire_time: datetime | None = None
    created_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def over(self) -> bool:
        """Whether nothing of it will run any more."""
        return self.status in ("completed", "cancelled") and self.running == 0


class Backfills(Answer, frozen=True):
    items: list[Backfill] = []
    next_cursor: str | None = None


class BackfillRange(Answer, frozen=True):
    """What a backfill would be."""

    job_id: str
    total: int = 0
    first_fire_time: datetime | None = None
    last_fire_time: datetime | None = None


class Workflow(Job, frozen=True):
    """A job that is made of tasks which need each other."""

    workflow_id: str = ""
    tasks: list[dict[str, Any]] = []


class Workflows(Answer, frozen=True):
    items: list[Workflow] = []
    next_cursor: str | None = None


class TaskOfRun(Answer, frozen=True):
    """Where a task of a workflow run stands."""

    name: str
    status: str = ""
    """`waiting` for what it needs; then that of its run; in the end `succeeded`, `failed`, `cancelled` or `skipped`."""
    reason: str = ""
    needs: list[str] = []
    run_if: str = "all_succeeded"
    waits_for: int = 0
    run_id: str | None = None
    instances: int | None = None
    """How often it runs, with `forEach`."""
    instances_open: int | None = None


class InstanceOfRun(Answer, frozen=True):
    """One of the runs of a task with `forEach`."""

    name: str
    index: int = 0
    status: str = ""
    reason: str = ""
    run_id: str | None = None


class WorkflowRun(Answer, frozen=True):
    """A run of a workflow, with all its tasks."""

    workflow_run_id: str
    workflow_id: str = ""
    name: str = ""
    version: int = 1
    status: str = ""
    origin: str = ""
    fire_time: datetime | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    error: Failure | None = None
    verdict: str = ""
    reason: str = ""
    cancel_requested_at: datetime | None = None
    retry_of: str | None = None
    retried_as: str | None = None
    counts: dict[str, int] = {}
    """How many tasks have which status."""
    tasks: list[TaskOfRun] = []
    instances: list[InstanceOfRun] = []

    @property
    def finished(self) -> bool:
        return self.status in TERMINAL

    def task(self, name: str) -> TaskOfRun:
        """The task of this name."""
        return next(task for task in self.tasks if task.name == name)


class JobStatus(Answer, frozen=True):
    """A job's newest run at a glance."""

    job_id: str
    status: str = ""
    start_time: datetime | None = None
    progress: str | float | None = None
    executor_id: str | None = None
    run_id: str | None = None
    attempt: int | None = None
    detail: str = ""
    """When it fires, of a job that follows another."""


class Triggered(Answer, frozen=True):
    """The run that a person asked for."""

    run_id: str
    job_id: str = ""
    replay_of: str | None = None
    status: str = ""
    """`queued`; `blocked` or `skipped`, if an earlier run is alive and the overlap policy says so."""
    detail: str = ""


class Cancelled(Answer, frozen=True):
    """What became of the thing that was to be cancelled."""

    status: str = ""
    job_id: str | None = None
    run_id: str | None = None


class LedgerEntry(Answer, frozen=True):
    """What became of one due instant, or of `count` consecutive ones from `fire_time` to `fire_until`."""

    fire_time: datetime
    verdict: str
    fire_until: datetime | None = None
    count: int = 1
    reason: str | None = None
    run_id: str | None = None
    late_ms: float | None = None
    lateness: Lateness | None = None
    status: str | None = None
    attempts: int = 0


class Ledger(Answer, frozen=True):
    due: int
    counts: dict[str, int]
    items: list[LedgerEntry] = []
    next_cursor: str | None = None

    @property
    def balanced(self) -> bool:
        """Whether every due instant is accounted for."""
        return self.due == sum(self.counts.values())

    def joined(self, page: Ledger) -> Ledger:
        """With the entries of the page that follows."""
        return replace(self, items=[*self.items, *page.items], next_cursor=page.next_cursor)


class Reason(Answer, frozen=True):
    """Why something waits, did not run, or was late."""

    code: str = ""
    text: str = ""
    unblocks: str = ""
    """What would change it."""
    since: datetime | None = None
    until: datetime | None = None
    """When time alone changes it."""
    run_id: str | None = None
    """The other run, where there is one."""


class RunWhy(Answer, frozen=True):
    """Why a run is where it is; the first reason is the one that matters most."""

    run_id: str
    job_id: str = ""
    job_name: str = ""
    status: str = ""
    answer: str = ""
    reasons: list[Reason] = []
    lateness: Lateness | None = None


class JobWhy(Answer, frozen=True):
    """Why a job is where it is."""

    job_id: str
    job_name: str = ""
    state: str = ""
    answer: str = ""
    reasons: list[Reason] = []
    """Of the job itself."""
    run: RunWhy | None = None
    """Its first live run, else the newest that ended."""
    exceptions: list[LedgerEntry] = []
    """The newest fires that did not start on time, newest first."""


class LogChunk(Answer, frozen=True):
    """Something that an attempt printed. It begins and ends where it was read, not where lines do."""

    attempt: int
    seq: int
    """Counts within the attempt, from 0."""
    stream: str = "stdout"
    """`stdout` or `stderr`; `system`, if Timeball has something to say about the output."""
    at: datetime | None = None
    text: str = ""


class LogLine(Answer, frozen=True):
    """A line of what an attempt printed, without its end."""

    attempt: int
    stream: str
    at: datetime | None
    text: str


class InUse(Answer, frozen=True):
    """What the runs of a worker take of it."""

    slots: int = 0
    cpu: float = 0.0
    memory_mb: int = 0


class Worker(Answer, frozen=True):
    worker_id: str = ""
    name: str = ""
    slots: int = 0
    running: int = 0
    cpu: float | None = None
    memory_mb: int | None = None
    in_use: InUse = InUse()
    labels: list[str] = []
    dedicated: bool = False
    kinds: list[str] | None = None
    """The kinds of tasks that it takes; None: every one."""
    reserved_for: str | None = None
    """The run that waits until this worker has room for it."""
    tasks: list[str] = []
    version: str = ""
    started_at: datetime | None = None
    seen_at: datetime | None = None


class Task(Answer, frozen=True):
    """A task registered under a name."""

    task_id: str
    task: dict[str, Any] = {}
    version: int = 1
    updated_at: datetime | None = None


class Calendar(Answer, frozen=True):
    """When jobs that refer to it do not fire."""

    name: str
    timezone: str = "UTC"
    description: str = ""
    entries: list[dict[str, Any]] = []
    version: int = 1
    updated_at: datetime | None = None


class Calendars(Answer, frozen=True):
    items: list[Calendar]
    next_cursor: str | None = None


class Key(Answer, frozen=True):
    """An API key. `key`, the secret itself, is there only in the answer that created it."""

    key_id: str
    role: str = ""
    name: str = ""
    key: str | None = None
    created_at: datetime | None = None
    revoked_at: datetime | None = None


class StoreClock(Answer, frozen=True):
    """The store's time beside the wall clock of its machine."""

    store_time: datetime
    wall_clock: datetime | None = None
    """None: the database server's clock is the store's time."""
    ahead_seconds: float = 0.0
    planning_held_since: datetime | None = None
    """None: planning is not held."""
    accepted_in_seconds: float | None = None
    why: str = ""


class Refusal(Answer, frozen=True):
    """Why one item of several was refused."""

    code: str = ""
    detail: str = ""


class Created(Answer, frozen=True):
    """One item of a batch: the job, or what was wrong with it."""

    job_id: str | None = None
    error: Refusal | None = None
    warnings: list[str] = []


class DeadGroup(Answer, frozen=True):
    """Dead letters with the same error."""

    count: int
    fingerprint: str | None = None
    kind: str | None = None
    message: str | None = None
    jobs: int = 0
    """How many jobs they are of."""
    first_at: datetime | None = None
    last_at: datetime | None = None
    example_run_id: str | None = None


class DeadGroups(Answer, frozen=True):
    items: list[DeadGroup]
    counted: int = 0
    more: bool = False
    """There are older dead letters that were not counted."""


class RunSpec(Answer, frozen=True):
    """What a run executes, or executed."""

    run_id: str
    edited: bool = False
    """Somebody edited it for this run; else it is what its job said."""
    spec: dict[str, Any] = {}


class Retried(Answer, frozen=True):
    """One run of several: as which it was retried, or why nothing was done."""

    run_id: str
    retried_as: str | None = None
    error: Refusal | None = None


class Jobs(Answer, frozen=True):
    items: list[Job]
    next_cursor: str | None = None


class Runs(Answer, frozen=True):
    items: list[Run]
    next_cursor: str | None = None


class Tasks(Answer, frozen=True):
    items: list[Task]
    next_cursor: str | None = None


class LogPage(Answer, frozen=True):
    items: list[LogChunk]
    next_cursor: str | None = None


class Workers(Answer, frozen=True):
    items: list[Worker]


class Keys(Answer, frozen=True):
    items: list[Key]


class Batch(Answer, frozen=True):
    items: list[Created]


class Fire(Answer, frozen=True):
    fire_time: datetime
    mark: str | None = None
    """`excluded`: a calendar is closed then, it does not run; `next_open`: what was excluded runs once."""
    note: str = ""


class Fires(Answer, frozen=True):
    """The coming fires of a job."""

    items: list[Fire]
    detail: str = ""

    @property
    def times(self) -> list[datetime]:
        """Without those that calendars exclude."""
        return [fire.fire_time for fire in self.items if fire.mark != "excluded"]


class ForecastBucket(Answer, frozen=True):
    since: datetime = field(name="from")
    until: datetime = field(name="to")
    fires: int = 0
    run_seconds: float = 0
    """What the fires of jobs whose duration is known will take: slots times seconds."""
    capacity_seconds: float = 0
    load: float | None = None
    """One by the other; None: there is no worker."""


class Forecast(Answer, frozen=True):
    """Fires to expect, against capacity."""

    items: list[ForecastBucket]
    peak: ForecastBucket | None = None
    slots: int = 0
    jobs: int = 0
    estimated_jobs: int = 0
    unmeasured_jobs: int = 0
    left_out_jobs: int = 0
    more_jobs: bool = False
    notes: list[str] = []
    """What is left out or estimated, in words."""


class PreviewedFire(Answer, frozen=True):
    """A fire that a schedule would have."""

    at: datetime
    local: datetime
    """The same instant, with the offset that clocks of the time zone show."""
    mark: str | None = None
    """`dst_gap`: its wall time does not exist that day, it was moved here; `dst_overlap`: its wall time comes twice;
    `excluded`: a calendar is closed; `next_open`: it opens, and what was excluded runs once."""
    note: str = ""


class Preview(Answer, frozen=True):
    """What a schedule would do: in a sentence, in fires, and what to beware of."""

    description: str = ""
    fires: list[PreviewedFire] = []
    warnings: list[str] = []


class Retrial(Answer, frozen=True):
    """What came of retrying dead letters; of a dry run, only how many there are."""

    matched: int = 0
    retried: int = 0
    skipped: int = 0
    items: list[Retried] = []
    """Each of them, if they were not too many."""
    created_before: datetime | None = None


class Discarding(Answer, frozen=True):
    """What came of discarding dead letters; of a dry run, only how many there are."""

    matched: int = 0
    discarded: int = 0
    skipped: int = 0
    items: list[Retried] = []
    created_before: datetime | None = None


class Bulk(Answer, frozen=True):
    """What came of a change of many runs; of a dry run, only how many there are."""

    matched: int = 0
    changed: int = 0
    skipped: int = 0
    failed: list[Retried] = []
    """Why, for the first of those that were skipped."""
    created_before: datetime | None = None
    """Send it with the same request again to mean the same runs, and nothing that was created since."""
