"""Conversion of keyword arguments into the canonical JSON of a job."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import NoneType
from typing import Any, Final, get_args, get_type_hints

from timeball.client.models.job import Job, JobOptions, Length
from timeball.domain import duration, instant
from timeball.domain.errors import Invalid
from timeball.domain.task.kinds import OFFERED

_KINDS: Final = tuple(kind for kind in OFFERED if kind.name in JobOptions.__annotations__)
"""The task kinds that have a keyword of their own. The other kinds are given as `task`."""
_WHAT: Final = ("task", "task_id", *(kind.name for kind in _KINDS))
_WHEN: Final = ("schedule", "cron", "every", "at", "window", "follow")
_CRON_ONLY: Final = {"timezone": "timezone", "dst_gap": "dstGap", "dst_overlap": "dstOverlap"}
_PARTS: Final = frozenset({*_WHAT, *_WHEN, *_CRON_ONLY, "on", "retry", "max_retries"} - {"task_id"})
"""Options that become part of the task, of the schedule or of the retry rules."""
_TYPES: Final = {name: get_args(kind) for name, kind in get_type_hints(JobOptions).items() if name not in _PARTS}
_FIELDS: Final = {
    **dict(zip(Job.__struct_fields__, Job.__struct_encode_fields__, strict=True)),
    "idempotency_key": "idempotencyKey",
}
"""The name of each option in JSON."""
_LENGTHS: Final = {name: _FIELDS[name] for name, kinds in _TYPES.items() if timedelta in kinds}
_MOMENTS: Final = {name: _FIELDS[name] for name, kinds in _TYPES.items() if datetime in kinds}
_PLAIN: Final = {name: _FIELDS[name] for name in _TYPES if name not in _LENGTHS and name not in _MOMENTS}
_REMOVABLE: Final = frozenset(name for name, kinds in _TYPES.items() if NoneType in kinds)


def document(options: JobOptions) -> dict[str, Any]:
    """Return the JSON of the given options, without defaults, so that an update changes nothing else."""
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    require_known(given, JobOptions.__annotations__, "a job has no option")
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
    """Return the JSON of an update: the given options, and null for each option to remove."""
    removed = [name for name, value in options.items() if value is None]
    return document(options) | {_FIELDS[name]: None for name in removed if name in _REMOVABLE}


def length(value: Length) -> str | int:
    """Return a length of time in the format of the API."""
    if isinstance(value, timedelta):
        return duration.render(value // timedelta(microseconds=1))
    return value


def moment(value: datetime | str) -> str:
    """Return an instant in the format of the API. Raise `Invalid` for a datetime without a time zone, because it could
    be any of 38 instants, one for each offset that is in use."""
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
    """Return the name of a function that `@timeball.task` registered."""
    from timeball.tasks import REGISTRY

    for name in REGISTRY.names:
        known = REGISTRY.get(name)
        if known is not None and known.call is function:
            return name
    raise Invalid(f"task={function!r} is neither the JSON of a task nor a function with @timeball.task", "/task")


def _schedule(given: Mapping[str, Any]) -> dict[str, Any] | None:
    zoned = {field: given[name] for name, field in _CRON_ONLY.items() if name in given}
    if zoned and "cron" not in given and "window" not in given:
        named = ", ".join(name for name in _CRON_ONLY if name in given)
        raise Invalid(f"{named} applies to cron and window only; give one of them", "/schedule")
    if "on" in given and "follow" not in given:
        raise Invalid("on applies to follow only; give the job to follow", "/schedule")
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


def require_known(given: Iterable[str], known: Collection[str], owner: str) -> None:
    """Raise `Invalid` for a name that is not known. `owner` begins the message, such as `a job has no option`."""
    for name in given:
        if name not in known:
            import difflib

            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise Invalid(f"{owner} {name}{hint}")


def _at_most_one(given: Mapping[str, Any], names: tuple[str, ...], purpose: str) -> None:
    said = [name for name in names if name in given]
    if len(said) > 1:
        raise Invalid(f"{' and '.join(said)} both say {purpose}; give only one of them")


def _json(value: Any) -> Any:
    """Convert mappings and sequences of any type to dicts and lists."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
