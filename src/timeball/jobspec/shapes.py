"""Converts the other shapes in which a job may be written into the canonical one. No other module reads these shapes;
`documents` declares their types.

    flat       {name, scheduleType: immediate|future|cron|interval, scheduleTime, cronExpression,
                payload: {script, params}, maxRetries}
    by task    {taskId, schedule: {type: "CRON"|"DATE", expression}, parameters}
    recurring  {isRecurring, jobInterval}, an interval in seconds
    windowed   {window: {from, to, timezone, days}} instead of a schedule
    following  {followJob: ID}, or {followJob: {job: ID, on: "failed"}}, instead of a schedule

Each step removes the fields that it handles from the document and adds the canonical form. `origins` maps canonical
pointers to those of the user's document, so that an error points to what the user wrote.
"""

from __future__ import annotations

from typing import Any, Final

from timeball.domain import instant
from timeball.domain.errors import Invalid, InvalidSchedule
from timeball.domain.instant import MILLISECOND
from timeball.domain.task.kinds import OFFERED
from timeball.jobspec.validation_text import did_you_mean

Document = dict[str, Any]
Origins = dict[str, str]

TYPES: Final = {
    "immediate": "immediate",
    "now": "immediate",
    "date": "date",
    "future": "date",
    "once": "date",
    "cron": "cron",
    "interval": "interval",
    "window": "window",
    "follow": "follow",
}
"""The names by which documents may call the types of schedules, in lower case."""

_FIELD_OF: Final = {"date": "scheduleTime", "cron": "cronExpression", "interval": "jobInterval"}
_WHOLE: Final = {"window": "window", "follow": "followJob"}
"""Types of schedules that are written as one field, not as several flat ones."""
_SCHEDULE_FIELDS: Final[tuple[str, ...]] = (
    "scheduleType",
    "scheduleTime",
    "cronExpression",
    "isRecurring",
    "jobInterval",
    "timezone",
)
_PAYLOAD_KIND: Final = "script"
"""The task kind of a payload without the main field of another kind."""
_KIND_OF: Final = {kind.main_field: kind.name for kind in sorted(OFFERED, key=lambda kind: kind.name != _PAYLOAD_KIND)}

_MADE_HERE: Final = (
    "jobId",
    "status",
    "version",
    "nextFireAt",
    "slot",
    "createdAt",
    "updatedAt",
    "pauseReason",
    "pausedUntil",
    "warnings",
)

OTHER_FIELDS: Final = {
    **dict.fromkeys((*_SCHEDULE_FIELDS, "window", "followJob", "payload", "maxRetries", "idempotencyKey"), ""),
    **dict.fromkeys(_MADE_HERE, "is set by the server; leave it out"),
}
"""Fields at the top level of a job that are not canonical, each with the error message; empty: the field is accepted.
"""


def normalise(document: Document, current: Document | None = None) -> tuple[Document, Origins]:
    """Return the canonical fields of a document, and their origins. `current` is the canonical job that is updated; its
    values are used where a partial document has none.
    """
    canonical = dict(document)
    origins: Origins = {}
    _take_schedule(canonical, origins, current or {})
    _take_payload(canonical, origins)
    _take_retries(canonical, origins)
    priority = canonical.get("priority")
    if isinstance(priority, str):
        canonical["priority"] = priority.lower()
    return canonical, origins


def _take_schedule(canonical: Document, origins: Origins, current: Document) -> None:
    given = {name: canonical.pop(name) for name in _SCHEDULE_FIELDS if name in canonical}
    given = {name: value for name, value in given.items() if value is not None}
    window = canonical.pop("window", None)
    if window is not None and canonical.get("schedule") is None:
        if not isinstance(window, dict):
            raise Invalid('a window is an object such as {"from": "01:00", "to": "05:00"}', "/window")
        zoned = {"timezone": given.pop("timezone")} if "timezone" in given else {}
        canonical["schedule"] = {**zoned, **window, "type": "window"}
        origins["/schedule"] = "/window"
        return
    follow = canonical.pop("followJob", None)
    if follow is not None and canonical.get("schedule") is None:
        if not isinstance(follow, dict | str):
            raise Invalid(
                'followJob is the id or name of a job, or an object such as {"job": "nightly", "on": "failed"}',
                "/followJob",
            )
        canonical["schedule"] = {**({"job": follow} if isinstance(follow, str) else follow), "type": "follow"}
        origins["/schedule/job" if isinstance(follow, str) else "/schedule"] = "/followJob"
        return
    if isinstance(canonical.get("schedule"), dict):
        canonical["schedule"] = _named_schedule(canonical["schedule"])
    elif given and "schedule" not in canonical:
        canonical["schedule"] = _flat_schedule(given, _as_flat(current.get("schedule") or {}), origins)


def _named_schedule(schedule: Document) -> Document:
    kind = schedule.get("type")
    if not isinstance(kind, str):
        return schedule
    schedule = {**schedule, "type": TYPES.get(kind.lower(), kind)}
    if schedule["type"] == "date" and "expression" in schedule:
        schedule["expression"] = _time(schedule["expression"], "/schedule/expression")
    return schedule


def _flat_schedule(given: Document, current: Document, origins: Origins) -> Document:
    kind = _flat_type(given) or current.get("scheduleType")
    if kind is None or kind == "immediate":
        return {"type": "immediate"}
    if kind in _WHOLE:
        raise InvalidSchedule(f"a schedule of this type is written as {_WHOLE[kind]!r}", f"/{next(iter(given))}")
    field = _FIELD_OF[kind]
    expression = given.get(field, current.get(field))
    if expression is None:
        raise InvalidSchedule(f"a schedule of this type needs {field!r}", f"/{field}")
    origins["/schedule/expression"] = f"/{field}"
    origins["/schedule/timezone"] = "/timezone"
    if kind == "date":
        expression = _time(expression, "/scheduleTime")
    schedule = {"type": kind, "expression": expression}
    zone = given.get("timezone", current.get("timezone"))
    if kind == "cron" and zone is not None:
        schedule["timezone"] = zone
    return schedule


def _flat_type(given: Document) -> str | None:
    """Return the type of the schedule: the one that `scheduleType` names, else the one that follows from the other
    fields. None if they do not decide the type, such as `timezone` alone.
    """
    named = given.get("scheduleType")
    if named is not None:
        kind = TYPES.get(named.lower()) if isinstance(named, str) else None
        if kind is None:
            raise InvalidSchedule(
                f"{named!r} is not one of immediate, future, cron, interval{did_you_mean(str(named), TYPES)}",
                "/scheduleType",
            )
        return kind
    recurring = given.get("isRecurring")
    if recurring is not None and not isinstance(recurring, bool):
        raise Invalid("isRecurring is true or false", "/isRecurring")
    if recurring or ("jobInterval" in given and recurring is None):
        return "cron" if "cronExpression" in given and "jobInterval" not in given else "interval"
    if "cronExpression" in given and recurring is None:
        return "cron"
    if "scheduleTime" in given:
        return "date"
    return "immediate" if recurring is False else None


def _as_flat(schedule: Document) -> Document:
    kind = schedule.get("type")
    if kind not in _FIELD_OF:
        return {"scheduleType": kind} if kind in _WHOLE else {}
    flat = {"scheduleType": kind, _FIELD_OF[kind]: schedule["expression"]}
    return flat | {name: schedule[name] for name in ("timezone",) if name in schedule}


def _time(value: Any, at: str) -> Any:
    """Return milliseconds since the epoch as an RFC 3339 time, and any other value unchanged."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:20])
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value * MILLISECOND <= instant.MAX:
            raise InvalidSchedule(f"{value} milliseconds since 1970 are outside the years 1970 to 9999", at)
        return instant.render(value * MILLISECOND)
    return value


def _take_payload(canonical: Document, origins: Origins) -> None:
    payload = canonical.pop("payload", None)
    if payload is None:
        return
    if not isinstance(payload, dict):
        raise Invalid('payload is an object such as {"script": "etl.py", "params": {}}', "/payload")
    task = dict(payload)
    for name in ("params", "parameters"):
        if name not in task:
            continue
        value = task.pop(name)
        if isinstance(value, list) and "script" in task:
            task["args"] = value
            origins["/task/args"] = f"/payload/{name}"
        elif value is not None and "parameters" not in canonical:
            canonical["parameters"] = value
            origins["/parameters"] = f"/payload/{name}"
    if not task:
        return
    if canonical.get("task") is not None or canonical.get("taskId") is not None:
        raise Invalid("the job has two tasks; leave out the one in the payload or the other one", "/payload")
    kind = next((kind for field, kind in _KIND_OF.items() if field in task), _PAYLOAD_KIND)
    canonical["task"] = {"kind": kind, **task}
    origins["/task"] = "/payload"


def _take_retries(canonical: Document, origins: Origins) -> None:
    limit = canonical.pop("maxRetries", None)
    retry = canonical.get("retry", {})
    if limit is not None and isinstance(retry, dict) and "maxRetries" not in retry:
        canonical["retry"] = {**retry, "maxRetries": limit}
        origins["/retry/maxRetries"] = "/maxRetries"


def point_back(pointer: str, origins: Origins) -> str:
    """Return the pointer into the user's document that a pointer into the canonical form stands for."""
    for canonical in sorted(origins, key=len, reverse=True):
        if pointer == canonical or pointer.startswith(canonical + "/"):
            return origins[canonical] + pointer[len(canonical) :]
    return pointer
