"""A job: what to run, when, and by which rules; and where its schedule stands."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, Self

import msgspec
from msgspec import Meta, Struct

from timeball.domain import duration, instant
from timeball.domain.dispatch import placement, priority
from timeball.domain.dispatch.limits import Concurrency, Key, RateLimit
from timeball.domain.dispatch.overlap import Overlap
from timeball.domain.dispatch.placement import Label, Need, Resources
from timeball.domain.duration import Duration
from timeball.domain.errors import Invalid
from timeball.domain.instant import DAY, SECOND, Micros
from timeball.domain.job.large_values import check_location
from timeball.domain.schedule import schedule
from timeball.domain.schedule.calendar import MAX_CALENDARS, CalendarName, Excluded
from timeball.domain.schedule.schedule import Follow, Immediate, Schedule
from timeball.domain.task.retry import Delivery, Retry
from timeball.domain.task.task import DEFAULT_GRACE, REMEMBERED, Task, check_duration
from timeball.domain.workflow.definition import WOVEN, Workflow, WorkflowTask

Name = Annotated[str, Meta(max_length=200)]
Moment = Annotated[str, Meta(max_length=64)]
CatchUp = Literal["all", "last", "none"]

HORIZON: Final = 15 * SECOND
"""How far ahead a fire becomes a run row, so that nothing has to be found at the moment it is due."""

MAX_JITTER: Final = DAY


def _moment(field: str, value: str) -> Micros:
    try:
        return instant.parse(value)
    except Invalid as error:
        raise ValueError(f"{field}: {error.detail}") from None


@lru_cache(maxsize=REMEMBERED)
def _check_durations(
    timeout: Duration | None,
    grace: Duration,
    catch_up_window: Duration,
    jitter: Duration | None,
    start_deadline: Duration | None,
) -> None:
    check_duration("timeout", timeout, shortest=1)
    check_duration("grace", grace)
    check_duration("catchUpWindow", catch_up_window)
    check_duration("jitter", jitter, longest=MAX_JITTER)
    check_duration("startDeadline", start_deadline, shortest=1)


class JobState(StrEnum):
    """What its owner wants of the job. Whether it is *completed* follows from what is left to do."""

    ACTIVE = "active"
    """Fires as scheduled."""
    PAUSED = "paused"
    """Fires nothing until it is resumed; then the catch-up rule decides about what fell due meanwhile."""
    CANCELLED = "cancelled"
    """Fires nothing any more. Final."""


class JobSpec(
    Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """What a user wrote, in its canonical form. Every acknowledged change of it is a new version.

    `gc=False`, here and elsewhere: frozen values that come by the thousand and can be part of no cycle. Looking for
    cycles in them took almost half the time of a batch.
    """

    name: Name = ""
    description: Annotated[str, Meta(max_length=4_096)] = ""
    task: Task | Workflow | None = None
    task_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    parameters: dict[str, Any] = {}
    schedule: Schedule = Immediate()
    retry: Retry = Retry()
    priority: Literal["high", "medium", "low"] | Annotated[int, Meta(ge=0, le=9)] = "medium"
    timeout: Duration | None = None
    grace: Duration = DEFAULT_GRACE
    overlap: Overlap = Overlap.QUEUE
    catch_up: CatchUp = "all"
    catch_up_window: Duration = "1h"
    start_at: Moment | None = None
    """No fire before; the grid of an interval starts here."""
    end_at: Moment | None = None
    """No fire after."""
    max_runs: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None
    """The schedule ends after this many fires, counted from the job's creation. Missed ones do not count."""
    jitter: Duration | None = None
    """Each fire starts up to this much later; how much is the same whenever it is asked."""
    start_deadline: Duration | None = None
    """A run that has not started this long after its time is skipped."""
    ordering_key: Key | None = None
    """Runs with the same key go strictly one after the other, in the order of their fire times."""
    on_failure: Literal["block", "continue"] = "block"
    """Whether the runs behind one that gave up wait until it is retried or discarded."""
    concurrency: Concurrency | None = None
    rate_limit: RateLimit | None = None
    resources: Resources | None = None
    runs_on: Annotated[list[Label], Meta(max_length=20)] = []
    """Labels a worker must have."""
    calendars: Annotated[list[CalendarName], Meta(max_length=MAX_CALENDARS)] = []
    """No fire while one of these is closed."""
    excluded: Excluded = "skip"
    """What becomes of such fires: nothing, or one for all of them when the calendars open."""
    delivery: Delivery = "at_least_once"
    preemptible: bool = False
    """Whether its runs make room for waiting ones of a higher class of priority."""
    result_location: Annotated[str, Meta(max_length=200)] | None = None
    """A folder of the object storage in which all results are kept, large or not."""
    tags: Annotated[list[Annotated[str, Meta(min_length=1, max_length=100)]], Meta(max_length=50)] = []
    user_id: Annotated[str, Meta(max_length=200)] = ""

    def __post_init__(self) -> None:
        _check_durations(self.timeout, self.grace, self.catch_up_window, self.jitter, self.start_deadline)
        if (self.task is None) == (self.task_id is None):
            raise ValueError("a job needs either a task or the taskId of a registered one")
        if self.result_location is not None:
            check_location(self.result_location)
            if type(self.task) is Workflow:
                raise ValueError("resultLocation: the result of a workflow has no place of its own")
        if type(self.task) is Workflow:
            self._check_workflow()
        if self.start_at is not None or self.end_at is not None or self.max_runs is not None:
            self._check_bounds()

    def _check_workflow(self) -> None:
        """A workflow is executed by nobody: its tasks are, each by its own rules."""
        for field, name in OF_TASKS.items():
            if getattr(self, field) != getattr(_ANY_TASK, field):
                raise ValueError(f"{name}: a workflow has no {name} of its own; give it to the tasks that need it")

    def _check_bounds(self) -> None:
        if self.one_shot:
            field = "startAt" if self.start_at is not None else "endAt" if self.end_at is not None else "maxRuns"
            raise ValueError(f"{field}: only a schedule that repeats has a {field}, and this one fires once")
        starts, ends = self.starts, self.ends
        if starts is not None and ends is not None and ends < starts:
            raise ValueError(f"endAt: {self.end_at} is before startAt, which is {self.start_at}")

    @property
    def starts(self) -> Micros | None:
        return None if self.start_at is None else _moment("startAt", self.start_at)

    @property
    def ends(self) -> Micros | None:
        return None if self.end_at is None else _moment("endAt", self.end_at)

    @property
    def gated(self) -> bool:
        """Whether it shares a limit with others, to be looked at when a run of it could start."""
        return self.concurrency is not None or self.rate_limit is not None

    @property
    def need(self) -> Need:
        return placement.need(self.resources, self.runs_on)

    @property
    def is_workflow(self) -> bool:
        return type(self.task) is Workflow

    @property
    def refers(self) -> bool:
        """Whether it names anything that has to be there: tasks, calendars, a kind of worker, a place for results, a
        job to follow."""
        return (
            self.task_id is not None
            or bool(self.calendars)
            or self.resources is not None
            or bool(self.runs_on)
            or self.result_location is not None
            or type(self.task) is Workflow
            or type(self.schedule) is Follow
        )

    @property
    def profile(self) -> str | None:
        if type(self.task) is Workflow:
            return WOVEN
        if self.resources is None and not self.runs_on:
            return None
        return placement.profile(self.need, self.level)

    @property
    def bound(self) -> bool:
        """Whether calendars may keep it from firing: what is to run at once is somebody's will, and runs."""
        return bool(self.calendars) and not isinstance(self.schedule, Immediate)

    @property
    def one_shot(self) -> bool:
        return schedule.is_one_shot(self.schedule)

    @property
    def follows(self) -> Follow | None:
        """What it follows, if that is another job."""
        return self.schedule if type(self.schedule) is Follow else None

    @property
    def level(self) -> int:
        return priority.level(self.priority)


def workflow_of(spec: JobSpec) -> list[WorkflowTask]:
    """Its tasks, if it is a workflow."""
    return spec.task.tasks if isinstance(spec.task, Workflow) else []


OF_TASKS: Final = {
    "retry": "retry",
    "timeout": "timeout",
    "concurrency": "concurrency",
    "rate_limit": "rateLimit",
    "resources": "resources",
    "runs_on": "runsOn",
    "delivery": "delivery",
}
"""What only the tasks of a workflow have."""
_ANY_TASK: Final = JobSpec(task_id="any")


def task_spec(workflow: JobSpec, task: WorkflowTask, parameters: dict[str, Any]) -> JobSpec:
    """What a run of one task of a workflow executes. Nobody waits behind it if it gives up: what follows from that is
    the workflow's to say."""
    return JobSpec(
        name=f"{workflow.name}/{task.name}"[:200],
        task=task.task,
        task_id=task.task_id,
        parameters=parameters,
        retry=task.retry,
        priority=workflow.priority if task.priority is None else task.priority,
        timeout=task.timeout,
        grace=task.grace,
        start_deadline=task.start_deadline,
        ordering_key=task.ordering_key,
        on_failure="continue",
        concurrency=task.concurrency,
        rate_limit=task.rate_limit,
        resources=task.resources,
        runs_on=task.runs_on,
        delivery=task.delivery,
        preemptible=workflow.preemptible or task.preemptible,
        tags=workflow.tags,
        user_id=workflow.user_id,
    )


class Job(Struct, frozen=True, gc=False, kw_only=True):
    """A job as the store holds it."""

    id: str
    tenant: str
    spec: JobSpec
    version: int
    """Grows with every acknowledged change; the planner writes only where it is still what it read."""
    state: JobState
    anchor: Micros
    """When its schedule takes effect: nothing fires before, and the grid of an interval starts here."""
    next_fire_at: Micros | None
    """The first instant that is not yet a run or a ledger span. None: the schedule is exhausted."""
    plan_at: Micros | None
    """When the planner has to look at it: `HORIZON` before the next fire, but not before the last planned one
    fell due, so that at most one future run exists. None: never."""
    created_at: Micros
    updated_at: Micros
    pause_reason: str = ""
    paused_until: Micros | None = None
    """When a pause ends by itself."""
    fired: int = 0
    """Fires that became runs, for `max_runs`."""
    owed: Micros | None = None
    """The last instant that calendars excluded, if a fire is owed for it when they open: the schedule goes on after
    it, and `next_fire_at` is that fire or the next instant, whichever comes first."""
    slot: int | None = None
    """The second of the day at which it fires within its window, if it has one."""
    last_span: str | None = None
    """The ledger row of the newest instants if those were missed or skipped: the next such instant joins it."""
    upstream_events: tuple[Micros, ...] = ()
    """Of a job that follows another: the instants that wait to be planned, in order. Only who plans knows them."""

    @property
    def serial(self) -> bool:
        """Whether its runs have to look at each other: a one-shot has nobody to overlap with."""
        return self.spec.overlap is not Overlap.ALLOW and not self.spec.one_shot

    @property
    def exhausted(self) -> bool:
        """Whether it has fired as often as it may."""
        return self.spec.max_runs is not None and self.fired >= self.spec.max_runs

    @property
    def spread(self) -> str:
        """What places it where its schedule leaves that open: its slot in a window, else what `H` hashes, which is
        stable for a job of this name."""
        if self.slot is not None:
            return f"{schedule.SLOT}{self.slot}"
        return f"{self.tenant}/{self.spec.name or self.id}"

    def with_(self, **changes: Any) -> Self:
        return msgspec.structs.replace(self, **changes)


def plan_at(next_fire_at: Micros | None, last_planned: Micros | None) -> Micros | None:
    """When the planner must look next, given the last instant it turned into a (possibly future) run."""
    if next_fire_at is None:
        return last_planned
    return next_fire_at - HORIZON if last_planned is None else max(next_fire_at - HORIZON, last_planned)


def is_overdue(job: Job, now: Micros) -> bool:
    """Whether the planner has something to decide about it first: an instant that fell due, or a blocked run."""
    return job.state is JobState.ACTIVE and job.plan_at is not None and job.plan_at <= now


def jitter_of(job: Job, fire_time: Micros) -> Micros:
    """How much later than its time a fire starts: anything up to `jitter`, the same on every node, every time."""
    if job.spec.jitter is None:
        return 0
    digest = hashlib.blake2b(f"{job.id}/{fire_time}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) % (duration.parse(job.spec.jitter) + 1)


class OffloadedSpec(
    JobSpec, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """A spec as the store keeps it when its parameters are large: those are an object elsewhere. Nobody can write one
    into a request, where an unknown field is an error."""

    parameters_at: str = ""
    """The object's key, which ends with `.json`. It comes last, and in every such spec."""

    def with_parameters(self, parameters: dict[str, Any]) -> JobSpec:
        fields = {name: getattr(self, name) for name in JobSpec.__struct_fields__}
        return JobSpec(**{**fields, "parameters": parameters})


_AT: Final = b',"parametersAt":"'
_END: Final = b'.json"}'

encode_spec = msgspec.json.Encoder().encode
_decode_whole = msgspec.json.Decoder(JobSpec).decode
_decode_stowed = msgspec.json.Decoder(OffloadedSpec).decode


def offloaded(spec: JobSpec, key: str) -> OffloadedSpec:
    """The spec without its parameters, which are there."""
    fields = {name: getattr(spec, name) for name in JobSpec.__struct_fields__}
    return OffloadedSpec(**{**fields, "parameters": {}}, parameters_at=key)


def without_parameters(spec: JobSpec) -> JobSpec:
    """What is left where nothing is executed by it."""
    return spec.with_parameters({}) if isinstance(spec, OffloadedSpec) else msgspec.structs.replace(spec, parameters={})


def decode_spec(text: str | bytes) -> JobSpec:
    if text.endswith('.json"}') if isinstance(text, str) else text.endswith(_END):  # few others do
        try:
            found = _decode_stowed(text)
        except msgspec.ValidationError:
            return _decode_whole(text)
        return found if found.parameters_at else _decode_whole(text)
    return _decode_whole(text)


def is_offloaded(spec: bytes) -> bool:
    """Whether the parameters of an encoded spec are elsewhere."""
    return spec.endswith(_END) and isinstance(decode_spec(spec), OffloadedSpec)


def fill(spec: bytes, parameters: bytes) -> bytes:
    """An encoded spec whose parameters were elsewhere, with them."""
    return b'%s,"parameters":%s}' % (spec[: spec.rindex(_AT)], parameters)
