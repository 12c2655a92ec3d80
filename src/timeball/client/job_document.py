"""Friendly keyword arguments → the canonical JSON of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypedDict

from timeball.domain import duration, instant
from timeball.domain.errors import Invalid
from timeball.domain.task.kinds import OFFERED

Length = str | int | timedelta
"""`"15m"`, seconds, or a timedelta."""


class JobOptions(TypedDict, total=False):
    """Everything that may be said of a job. What to run: one of `task`, `task_id`, `shell`, `http`, `script`,
    `python`. When: at most one of `schedule`, `cron`, `every`, `at`, `window`, `follow`; at once without any. In an
    update, None takes away what the job has."""

    name: str
    description: str
    task: Mapping[str, Any] | Callable[..., Any]
    """The canonical JSON of a task, or a function made with `@timeball.task`."""
    task_id: str
    shell: str | Sequence[str]
    """A command for `sh -c`, or an argv list."""
    http: str
    """A URL; the request is a POST with the parameters. For more, give `task` with kind `http`."""
    script: str
    python: str
    """The name of a registered function."""
    parameters: Mapping[str, Any]
    schedule: Mapping[str, Any]
    cron: str
    every: Length
    at: datetime | str
    window: str | Mapping[str, Any]
    """`"01:00-05:00"`, or `{"from": "01:00", "to": "05:00", "days": ["MON"]}`: daily, in a slot of its own."""
    follow: str
    """Another job, by its id, or by its name if no other has it: after each of its runs that ends as `on` says."""
    on: Literal["succeeded", "failed", "finished"]
    """Which ends of `follow` count; those that succeeded without it."""
    timezone: str
    """Of `cron` or `window`; UTC without it."""
    dst_gap: Literal["run", "skip"]
    dst_overlap: Literal["first", "both"]
    retry: Mapping[str, Any]
    max_retries: int
    priority: Literal["high", "medium", "low"] | int
    timeout: Length | None
    grace: Length
    overlap: Literal["allow", "skip", "queue", "queue_one", "cancel_previous", "terminate_previous"]
    catch_up: Literal["all", "last", "none"]
    catch_up_window: Length
    start_at: datetime | str | None
    """No fire before; the grid of `every` starts here."""
    end_at: datetime | str | None
    max_runs: int | None
    """The schedule ends after this many fires."""
    jitter: Length | None
    """Each fire starts up to this much later."""
    start_deadline: Length | None
    """What has not started this long after its time is skipped."""
    ordering_key: str | None
    """Runs with the same key go strictly one after the other, in the order of their fire times."""
    on_failure: Literal["block", "continue"]
    """Whether the runs behind one that gave up wait until it is retried or discarded."""
    concurrency: Mapping[str, Any] | None
    """`{"key": "db", "limit": 5}`: at most so many runs with this key at once."""
    rate_limit: Mapping[str, Any] | None
    """`{"key": "mails", "limit": 100, "per": "1m", "burst": 10}`: starts of runs with this key."""
    resources: Mapping[str, Any] | None
    """`{"cpu": 2, "memoryMb": 512, "slots": 1}`: what a run takes of its worker."""
    runs_on: Sequence[str] | None
    """Labels that a worker must have."""
    calendars: Sequence[str] | None
    """No fire while one of these is closed."""
    excluded: Literal["skip", "next_open"]
    """What becomes of such fires: nothing, or one for all of them when the calendars open."""
    delivery: Literal["at_least_once", "at_most_once"]
    """`at_most_once`: an attempt that may have done something is never repeated."""
    preemptible: bool
    result_location: str | None
    """A folder of the object storage in which all results are kept: `reports/daily`."""
    tags: Sequence[str]
    user_id: str
    idempotency_key: str
    """Two requests with one key make one job."""


_KINDS: Final = tuple(kind for kind in OFFERED if kind.name in JobOptions.__annotations__)
"""The kinds of tasks that have a keyword; the others are given as `task`."""
_WHAT: Final = ("task", "task_id", *(kind.name for kind in _KINDS))
_WHEN: Final = ("schedule", "cron", "every", "at", "window", "follow")
_CRON_ONLY: Final = {"timezone": "timezone", "dst_gap": "dstGap", "dst_overlap": "dstOverlap"}
_PLAIN: Final = {
    "name": "name",
    "description": "description",
    "task_id": "taskId",
    "parameters": "parameters",
    "priority": "priority",
    "overlap": "overlap",
    "catch_up": "catchUp",
    "max_runs": "maxRuns",
    "ordering_key": "orderingKey",
    "on_failure": "onFailure",
    "concurrency": "concurrency",
    "rate_limit": "rateLimit",
    "resources": "resources",
    "runs_on": "runsOn",
    "calendars": "calendars",
    "excluded": "excluded",
    "delivery": "delivery",
    "preemptible": "preemptible",
    "result_location": "resultLocation",
    "tags": "tags",
    "user_id": "userId",
    "idempotency_key": "idempotencyKey",
}
_LENGTHS: Final = {
    "timeout": "timeout",
    "grace": "grace",
    "catch_up_window": "catchUpWindow",
    "jitter": "jitter",
    "start_deadline": "startDeadline",
}
_MOMENTS: Final = {"start_at": "startAt", "end_at": "endAt"}
_REMOVABLE: Final = frozenset(
    {
        *("timeout", "start_at", "end_at", "max_runs", "jitter", "start_deadline"),
        *("ordering_key", "concurrency", "rate_limit", "resources", "runs_on", "calendars", "result_location"),
    }
)


def document(options: JobOptions) -> dict[str, Any]:
    """The JSON of what was said, and of nothing else: a partial update says little."""
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    _all_known(given)
    _at_most_one(given, _WHAT, "what to run")
    _at_most_one(given, _WHEN, "when to run")
    job = {field: _json(given[name]) for name, field in _PLAIN.items() if name in given}
    job |= {field: length(given[name]) for name, field in _LENGTHS.items() if name in given}
    job |= {field: moment(given[name]) for name, field in _MOMENTS.items() if name in given}
    task = _task(given)
    if task is not None:
        job["task"] = task
    schedule = _schedule(given)
    if schedule is not None:
        job["schedule"] = schedule
    retry = dict(given.get("retry", {}))
    if "max_retries" in given:
        retry["maxRetries"] = given["max_retries"]
    if retry:
        job["retry"] = retry
    return job


def amendment(options: JobOptions) -> dict[str, Any]:
    """The JSON of an update: what was said, and null for what is to be taken away."""
    fields = _PLAIN | _LENGTHS | _MOMENTS
    removed = [name for name, value in options.items() if value is None]
    return document(options) | {fields[name]: None for name in removed if name in _REMOVABLE}


def length(value: Length) -> str | int:
    """A length of time as the API reads it."""
    if isinstance(value, timedelta):
        return duration.render(value // timedelta(microseconds=1))
    return value


def moment(value: datetime | str) -> str:
    """A moment as the API reads it. A datetime without a time zone could be any of 38 instants."""
    if isinstance(value, str):
        return value
    if value.utcoffset() is None:
        raise Invalid(f"{value.isoformat()} has no time zone; give an aware datetime, with tzinfo")
    return instant.render(instant.of(value))


def _task(given: Mapping[str, Any]) -> dict[str, Any] | None:
    match given:
        case {"task": Mapping() as task}:
            return dict(task)
        case {"task": task}:
            return {"kind": "python", "function": _registered_name(task)}
        case _:
            named = (kind for kind in _KINDS if kind.name in given)
            return next(({"kind": kind.name, kind.main_field: _json(given[kind.name])} for kind in named), None)


def _registered_name(function: object) -> str:
    from timeball.tasks import REGISTRY

    for name in REGISTRY.names:
        known = REGISTRY.get(name)
        if known is not None and known.call is function:
            return name
    raise Invalid(f"task={function!r} is neither a task's JSON nor a function made with @timeball.task", "/task")


def _schedule(given: Mapping[str, Any]) -> dict[str, Any] | None:
    zoned = {field: given[name] for name, field in _CRON_ONLY.items() if name in given}
    if zoned and "cron" not in given and "window" not in given:
        named = ", ".join(name for name in _CRON_ONLY if name in given)
        raise Invalid(f"{named} needs a cron expression to apply to", "/schedule")
    if "on" in given and "follow" not in given:
        raise Invalid("on needs a job to follow", "/schedule")
    match given:
        case {"schedule": schedule}:
            return dict(schedule)
        case {"cron": expression}:
            return {"type": "cron", "expression": expression, **zoned}
        case {"every": value}:
            return {"type": "interval", "expression": length(value)}
        case {"window": value}:
            return {"type": "window", **_window(value), **zoned}
        case {"follow": job}:
            return {"type": "follow", "job": job, **({"on": given["on"]} if "on" in given else {})}
        case {"at": value}:
            return {"type": "date", "expression": moment(value)}
        case _:
            return None


def _window(value: str | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(value, str):
        since, _, until = value.partition("-")
        return {"from": since.strip(), "to": until.strip()}
    return dict(value)


def _all_known(given: Mapping[str, Any]) -> None:
    for name in given:
        if name not in JobOptions.__annotations__:
            import difflib

            close = difflib.get_close_matches(name, JobOptions.__annotations__, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise Invalid(f"a job has no {name}{hint}")


def _at_most_one(given: Mapping[str, Any], names: tuple[str, ...], purpose: str) -> None:
    said = [name for name in names if name in given]
    if len(said) > 1:
        raise Invalid(f"{' and '.join(said)} both say {purpose}; give one of them")


def _json(value: Any) -> Any:
    """Mappings and sequences of any kind as those that JSON knows."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
