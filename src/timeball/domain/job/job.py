"""A job: its spec (the task, the schedule and the rules), and the state of its schedule."""

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
from timeball.domain.job.slo import Slo
from timeball.domain.schedule import schedule
from timeball.domain.schedule.calendar import MAX_CALENDARS, CalendarName, Excluded
from timeball.domain.schedule.schedule import Follow, Immediate, Schedule
from timeball.domain.task.retry import Delivery, Retry
from timeball.domain.task.task import DEFAULT_GRACE, REMEMBERED, Task, check_duration
from timeball.domain.workflow.definition import WORKFLOW_PROFILE, Workflow, WorkflowTask

Name = Annotated[str, Meta(max_length=200)]
Moment = Annotated[str, Meta(max_length=64)]
CatchUp = Literal["all", "last", "none"]

HORIZON: Final = 15 * SECOND
"""Microseconds before its time at which a fire becomes a run row, so that it need not be planned when it is due."""

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
    """The state that the owner of the job has requested. A job counts as *completed* if it has nothing left to do; that
    is computed, not stored."""

    ACTIVE = "active"
    """The job fires as scheduled."""
    PAUSED = "paused"
    """The job does not fire until it is resumed. Then the catch-up rule decides about the fires during the pause."""
    CANCELLED = "cancelled"
    """The job never fires again. Final."""


class JobSpec(
    Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """The definition of a job by a user, in canonical form. Every acknowledged change of it is a new version.

    `gc=False`, here and elsewhere: these frozen values exist by the thousand and cannot be part of a reference cycle.
    The search of the garbage collector for cycles in them took almost half the time of a batch.
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
    """The job does not fire before this time. The grid of an interval starts here."""
    end_at: Moment | None = None
    """The job does not fire after this time."""
    max_runs: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None
    """The schedule ends after this number of fires, counted from the creation of the job. Missed fires do not count."""
    jitter: Duration | None = None
    """Each run starts later than its fire time by a delay up to this duration. The delay is deterministic: it is the
    same for a fire on every node."""
    start_deadline: Duration | None = None
    """A run that has not started this long after its time is skipped."""
    ordering_key: Key | None = None
    """Runs with the same key execute strictly one after the other, in the order of their fire times."""
    on_failure: Literal["block", "continue"] = "block"
    """`block`: if a run ends as failed or dead, the runs with the same ordering key wait until it is retried or
    discarded. `continue`: they do not wait."""
    concurrency: Concurrency | None = None
    rate_limit: RateLimit | None = None
    resources: Resources | None = None
    runs_on: Annotated[list[Label], Meta(max_length=20)] = []
    """Labels that a worker must have to execute the runs."""
    calendars: Annotated[list[CalendarName], Meta(max_length=MAX_CALENDARS)] = []
    """The job does not fire while one of these calendars is closed."""
    excluded: Excluded = "skip"
    """`skip` drops fires while a calendar is closed; `next_open` replaces them by one fire when the calendars open."""
    delivery: Delivery = "at_least_once"
    preemptible: bool = False
    """True if running attempts of the job give their slots to waiting runs of a higher priority class."""
    result_location: Annotated[str, Meta(max_length=200)] | None = None
    """A folder of the object storage in which all results of the job are stored, large or not."""
    slo: Slo | None = None
    tags: Annotated[list[Annotated[str, Meta(min_length=1, max_length=100)]], Meta(max_length=50)] = []
    user_id: Annotated[str, Meta(max_length=200)] = ""

    def __post_init__(self) -> None:
        _check_durations(self.timeout, self.grace, self.catch_up_window, self.jitter, self.start_deadline)
        if (self.task is None) == (self.task_id is None):
            raise ValueError("a job needs either a task or the taskId of a registered task")
        if self.result_location is not None:
            check_location(self.result_location)
            if type(self.task) is Workflow:
                raise ValueError("resultLocation: the result of a workflow cannot be stored in a location of its own")
        if type(self.task) is Workflow:
            self._check_workflow()
        if self.start_at is not None or self.end_at is not None or self.max_runs is not None:
            self._check_bounds()

    def _check_workflow(self) -> None:
        """Raise `ValueError` for a field that belongs to the tasks of a workflow. No worker executes a workflow itself;
        workers execute its tasks, each by its own rules."""
        for field, name in OF_TASKS.items():
            if getattr(self, field) != getattr(_ANY_TASK, field):
                raise ValueError(f"{name}: a workflow has no {name} of its own; set it on the tasks that need it")

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
        """True if the job has a concurrency or rate limit, which other jobs may share. It is checked when a run could
        start."""
        return self.concurrency is not None or self.rate_limit is not None

    @property
    def need(self) -> Need:
        return placement.need(self.resources, self.runs_on)

    @property
    def is_workflow(self) -> bool:
        return type(self.task) is Workflow

    @property
    def refers(self) -> bool:
        """True if the spec refers to something that a submit has to look up: registered tasks, calendars, workers with
        labels or resources, a location for results, a job to follow, or the tasks of a workflow."""
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
            return WORKFLOW_PROFILE
        if self.resources is None and not self.runs_on:
            return None
        return placement.profile(self.need, self.level)

    @property
    def bound(self) -> bool:
        """True if calendars may exclude fires of the job. An immediate schedule ignores calendars, because a user
        requested its run explicitly."""
        return bool(self.calendars) and not isinstance(self.schedule, Immediate)

    @property
    def one_shot(self) -> bool:
        return schedule.is_one_shot(self.schedule)

    @property
    def follows(self) -> Follow | None:
        """The schedule, if it follows another job; None otherwise."""
        return self.schedule if type(self.schedule) is Follow else None

    @property
    def level(self) -> int:
        return priority.level(self.priority)


def workflow_of(spec: JobSpec) -> list[WorkflowTask]:
    """Return the tasks of a workflow; an empty list for any other job."""
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
"""Fields that the tasks of a workflow have and the workflow itself must not have, with their names in JSON."""
_ANY_TASK: Final = JobSpec(task_id="any")


def task_spec(workflow: JobSpec, task: WorkflowTask, parameters: dict[str, Any]) -> JobSpec:
    """Return the spec of the run of one workflow task. Its `on_failure` is `continue`: no run with the same ordering
    key waits if the task fails, because the workflow decides what follows."""
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
    """A stored job: its spec, its state and the state of its schedule."""

    id: str
    tenant: str
    spec: JobSpec
    version: int
    """A number that every acknowledged change of the job increments. The planner writes a plan only if the job still
    has the version that the planner read."""
    state: JobState
    anchor: Micros
    """The instant at which the schedule takes effect: no fire is before it, and the grid of an interval starts here."""
    next_fire_at: Micros | None
    """The first fire that has neither a run nor a ledger row yet. None if no such fire is known."""
    plan_at: Micros | None
    """The instant at which the planner has to plan the job: `HORIZON` before the next fire, but not before the last
    planned fire is due, so that at most one future run exists. None if the planner has nothing to do."""
    created_at: Micros
    updated_at: Micros
    pause_reason: str = ""
    paused_until: Micros | None = None
    """The instant at which a pause ends automatically."""
    fired: int = 0
    """Number of fires that became runs, for `max_runs`."""
    deferred_fire: Micros | None = None
    """The last fire that calendars excluded, if a deferred fire replaces it when they open. The schedule continues
    after it. `next_fire_at` is then the deferred fire or the next fire of the schedule, whichever is first."""
    slot: int | None = None
    """The second of the day at which the job fires within its window, if its schedule is a window."""
    last_span: str | None = None
    """The id of the ledger row of the newest fires, if they were missed or skipped. The next one extends the row."""
    created_by: str | None = None
    """The id of the credential with which the job was submitted, if it is known."""
    traceparent: str | None = None
    """The trace that the runs of a one-shot continue, as in the header `traceparent`. None: each run begins its own."""
    upstream_events: tuple[Micros, ...] = ()
    """For a job that follows another job: its fires that are not planned yet, in order. Loaded only for planning."""

    @property
    def serial(self) -> bool:
        """True if the overlap policy has to compare the runs of the job with each other. A one-shot has no other run to
        overlap with."""
        return self.spec.overlap is not Overlap.ALLOW and not schedule.is_one_shot(self.spec.schedule)

    @property
    def exhausted(self) -> bool:
        """True if the job has `max_runs`, and this number of its fires became runs."""
        return self.spec.max_runs is not None and self.fired >= self.spec.max_runs

    @property
    def spread(self) -> str:
        """The text that determines the part of the fire time that the schedule leaves open: the slot in a window, or
        else the text that `H` in a cron expression hashes, which is the same for every job of this name."""
        if self.slot is not None:
            return f"{schedule.SLOT}{self.slot}"
        return f"{self.tenant}/{self.spec.name or self.id}"

    def with_(self, **changes: Any) -> Self:
        return msgspec.structs.replace(self, **changes)


def plan_at(next_fire_at: Micros | None, last_planned: Micros | None) -> Micros | None:
    """Return when the planner has to plan the job again. `last_planned` is the last fire that became a run; it may be
    in the future."""
    if next_fire_at is None:
        return last_planned
    return next_fire_at - HORIZON if last_planned is None else max(next_fire_at - HORIZON, last_planned)


def is_overdue(job: Job, now: Micros) -> bool:
    """True if the job must be planned before a change: a fire is due, or a blocked run waits for the overlap policy."""
    return job.state is JobState.ACTIVE and job.plan_at is not None and job.plan_at <= now


def jitter_of(job: Job, fire_time: Micros) -> Micros:
    """Return the delay of a fire, in microseconds: between 0 and `jitter`. The same fire has the same delay on every
    node."""
    if job.spec.jitter is None:
        return 0
    digest = hashlib.blake2b(f"{job.id}/{fire_time}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) % (duration.parse(job.spec.jitter) + 1)


class OffloadedSpec(
    JobSpec, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """The stored form of a spec whose large parameters are in object storage. A request cannot contain this form,
    because an unknown field is an error there."""

    parameters_at: str = ""
    """The key of the object, which ends with `.json`. It is the last field of the JSON, and always present."""

    def with_parameters(self, parameters: dict[str, Any]) -> JobSpec:
        fields = {name: getattr(self, name) for name in JobSpec.__struct_fields__}
        return JobSpec(**{**fields, "parameters": parameters})


_AT: Final = b',"parametersAt":"'
_END: Final = b'.json"}'

encode_spec = msgspec.json.Encoder().encode
_decode_whole = msgspec.json.Decoder(JobSpec).decode
_decode_stowed = msgspec.json.Decoder(OffloadedSpec).decode


def offloaded(spec: JobSpec, key: str) -> OffloadedSpec:
    """Return the spec without its parameters, with a reference to the object that has them."""
    fields = {name: getattr(spec, name) for name in JobSpec.__struct_fields__}
    return OffloadedSpec(**{**fields, "parameters": {}}, parameters_at=key)


def without_parameters(spec: JobSpec) -> JobSpec:
    """Return the spec without its parameters, for code that needs the schedule or the rules and executes nothing."""
    return spec.with_parameters({}) if isinstance(spec, OffloadedSpec) else msgspec.structs.replace(spec, parameters={})


def decode_spec(text: str | bytes) -> JobSpec:
    # An encoded spec without offloaded parameters rarely ends like this, so few specs are decoded twice.
    if text.endswith('.json"}') if isinstance(text, str) else text.endswith(_END):
        try:
            found = _decode_stowed(text)
        except msgspec.ValidationError:
            return _decode_whole(text)
        return found if found.parameters_at else _decode_whole(text)
    return _decode_whole(text)


def is_offloaded(spec: bytes) -> bool:
    """True if the parameters of an encoded spec are in object storage."""
    return spec.endswith(_END) and isinstance(decode_spec(spec), OffloadedSpec)


def fill(spec: bytes, parameters: bytes) -> bytes:
    """Return an encoded spec in which the reference to object storage is replaced by the parameters."""
    return b'%s,"parameters":%s}' % (spec[: spec.rindex(_AT)], parameters)
