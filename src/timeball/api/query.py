"""Query parameters of lists and filters, and the accepted names of statuses."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Final, Literal, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta, Struct

from timeball.api.bodies import DeadLetterFilter, JobsFilter
from timeball.domain import ids, instant
from timeball.domain.errors import Invalid
from timeball.domain.instant import MILLISECOND, Micros
from timeball.domain.run.ledger import Origin
from timeball.domain.run.status import GAVE_UP, WORDS, Status
from timeball.domain.task.kinds import KINDS
from timeball.jobspec.validation_text import did_you_mean, explain
from timeball.ports.store.jobs import JobFilter
from timeball.ports.store.queries import RunFilter

Q = TypeVar("Q", bound=Struct)

Text = Annotated[str, Meta(max_length=200)]
Cursor = Annotated[str, Meta(max_length=1_000, description="`nextCursor` of the previous page.")]
Limit = Annotated[int, Meta(ge=1, le=1_000, description="Maximum number of items.")]
Time = Annotated[str, Meta(max_length=64, description="RFC 3339 with an offset, or milliseconds since 1970.")]

JOB_STATUSES: Final = {
    "scheduled": "scheduled",
    "paused": "paused",
    "completed": "completed",
    "cancelled": "cancelled",
    "canceled": "cancelled",
    "active": "scheduled",
    "pending": "scheduled",
    "not_started": "scheduled",
    "in_progress": "scheduled",
    "done": "completed",
    "success": "completed",
}
"""Accepted names for the status of a job, in lower case."""

TASK_WORDS: Final = {kind: kind for kind in (*KINDS, "workflow")}
SCHEDULE_TYPES: Final = {
    **{kind: kind for kind in ("immediate", "date", "cron", "interval", "window", "follow")},
    "future": "date",
}
"""Accepted names for the type of a schedule: those of `schedule.type` and of `scheduleType`, in lower case."""


class PageQuery(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    cursor: Cursor = ""
    limit: Limit = 100

    def after(self, prefix: str) -> str | None:
        """Return the id after which the page begins; None: the page is the first one."""
        return place_after(self.cursor, prefix, _at("cursor"))


def place_after(cursor: str, prefix: str, at: str) -> str | None:
    """Return the id in the cursor of a list of objects with this id prefix; None for an empty cursor. Raise `Invalid`,
    with the pointer `at`, if it is another text."""
    if cursor and not ids.is_id(prefix, cursor):
        raise Invalid(f"{cursor[:64]!r} is not a cursor of this list; use the last `nextCursor`", at)
    return cursor or None


class JobsQuery(PageQuery, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    status: Annotated[Text, Meta(description="One or several, separated by commas.")] = ""
    name: Text = ""
    tag: Text = ""
    user_id: Text = ""
    task_id: Text = ""
    calendar: Annotated[Text, Meta(description="Name of a calendar that the jobs refer to.")] = ""
    q: Annotated[Text, Meta(description="Part of the name, in upper or lower case, or a job id.")] = ""
    kind: Annotated[Text, Meta(description="Kind of the task, or `workflow`.")] = ""
    schedule_type: Annotated[
        Text, Meta(description="`immediate`, `date` (or `future`), `cron`, `interval`, `window` or `follow`.")
    ] = ""
    include: Annotated[
        Literal["", "recentRuns"], Meta(description="`recentRuns`: each job with its newest runs; at most 100 jobs.")
    ] = ""


def job_filter(given: JobsQuery | JobsFilter, tenant: str, under: str = "/query") -> JobFilter:
    """Return the job filter for query parameters, or for the filter of a body at `under`."""
    created_before = time_of(getattr(given, "created_before", ""), "createdBefore", under)
    return JobFilter(
        tenant=tenant,
        status=job_statuses(given.status, under),
        name=given.name or None,
        tag=given.tag or None,
        user_id=given.user_id or None,
        task_id=given.task_id or None,
        calendar=given.calendar or None,
        text=given.q or None,
        kind=_one_of(given.kind, TASK_WORDS, _at("kind", under)),
        schedule_type=_one_of(given.schedule_type, SCHEDULE_TYPES, _at("scheduleType", under)),
        made_before=None if created_before is None else ids.first_job(created_before),
    )


def _one_of(word: str, known: Mapping[str, str], at: str) -> str | None:
    if not word:
        return None
    found = known.get(word.lower())
    if found is None:
        raise _unknown(word, known, at)
    return found


def job_statuses(given: str | list[str], under: str = "/query") -> frozenset[str]:
    """Return the job statuses that are named, in a list or with commas between them."""
    return frozenset(_job_status(word, under) for word in _words(given))


def run_statuses(text: str) -> frozenset[Status]:
    """Return the statuses of runs that are named in a list with commas."""
    return frozenset().union(*(_run_statuses(word, "/query") for word in _words(text)))


class DeadLetterGroupsQuery(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    job_id: Text = ""
    user_id: Text = ""
    start_time: Annotated[Time, Meta(description="Earliest fire time (RFC 3339 or milliseconds since 1970).")] = ""
    end_time: Annotated[Time, Meta(description="Latest fire time (RFC 3339 or milliseconds since 1970).")] = ""
    tag: Text = ""
    task_id: Text = ""
    fingerprint: Annotated[Text, Meta(description="Fingerprint of the last error; `none`: without one.")] = ""
    limit: Limit = 100


class DeadLettersQuery(DeadLetterGroupsQuery, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    cursor: Cursor = ""


class RunsQuery(DeadLettersQuery, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    status: Annotated[Text, Meta(description="One or several, separated by commas; synonyms are accepted.")] = ""
    origin: Annotated[Text, Meta(description="One or several, separated by commas.")] = ""


class RunListQuery(RunsQuery, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    worker_id: Annotated[Text, Meta(description="Only runs that this worker executes now.")] = ""
    archived: Annotated[bool, Meta(description="List archived runs instead of those in the store.")] = False


class LegacyQuery(RunsQuery, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    limit: Limit = 1_000


class SloQuery(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    job_id: Annotated[str, Meta(max_length=100, description="A job.")] = ""
    tag: Annotated[str, Meta(max_length=100, description="All jobs with this tag that have an objective.")] = ""


class ForecastQuery(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    since: Annotated[Time, Meta(description="Default: now.")] = msgspec.field(default="", name="from")
    until: Annotated[Time, Meta(description="Default: a week later.")] = msgspec.field(default="", name="to")
    bucket: Annotated[str, Meta(max_length=100, description="The length of each bucket: 1m or more.")] = "1h"


class LedgerQuery(PageQuery, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    since: Annotated[Time, Meta(description="Start of the range. Default: creation of the job.")] = msgspec.field(
        name="from", default=""
    )
    until: Annotated[Time, Meta(description="End of the range, exclusive. Default: now.")] = msgspec.field(
        name="to", default=""
    )


class NextQuery(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    count: Annotated[int, Meta(ge=1, le=1_000, description="How many fires.")] = 10


class LogsQuery(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    attempt: Annotated[int, Meta(ge=1, le=1_000_000, description="Only this attempt.")] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    follow: Annotated[bool, Meta(description="Keep the connection open until the run ends (text only).")] = False
    cursor: Annotated[str, Meta(max_length=20, description="`nextCursor` of the previous page (JSON only).")] = ""
    limit: Limit = 1_000
    search: Annotated[
        str,
        Meta(
            max_length=500,
            description="Only lines that contain this text, in any case; not with `follow`. A page of JSON ends after"
            " 4 MiB of output or `limit` lines, so it may be empty and have a `nextCursor`.",
        ),
    ] = ""


class JobLogsQuery(LogsQuery, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    as_: Annotated[str, Meta(pattern="^(text|url)$", description="`url`: return its URL.")] = msgspec.field(
        name="as", default="text"
    )


def read_query(query_string: bytes, kind: type[Q]) -> Q:
    """Decode the query parameters. An unknown parameter is an error, because ignoring a misspelt filter would change
    the result.
    """
    given: dict[str, str] = {}
    try:
        pairs = parse_qsl(query_string.decode("latin-1"), keep_blank_values=True, max_num_fields=50)
    except ValueError as error:
        raise Invalid(f"the query cannot be read: {error}", "/query") from None
    for name, value in pairs:
        if "\x00" in name or "\x00" in value:
            raise Invalid("a parameter must not contain the NUL character", _at(name.replace("\x00", "")))
        if name in given and name != "status":
            raise Invalid(f"{name!r} is given twice", _at(name))
        given[name] = f"{given[name]},{value}" if name in given else value
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        found = explain(error, kind, given)
        raise Invalid(found.detail, f"/query{found.pointer}") from None


def run_filter(given: DeadLetterGroupsQuery | DeadLetterFilter, tenant: str, under: str = "/query") -> RunFilter:
    """Return the run filter for query parameters, or for the filter of a body at `under`."""
    status = _words(getattr(given, "status", ""))
    origin = _words(getattr(given, "origin", ""))
    created_before = time_of(getattr(given, "created_before", ""), "createdBefore", under)
    return RunFilter(
        tenant=tenant,
        job_id=given.job_id or None,
        status=frozenset().union(*(_run_statuses(word, under) for word in status)),
        fire_from=time_of(given.start_time, "startTime", under),
        fire_until=time_of(given.end_time, "endTime", under),
        user_id=given.user_id or None,
        tag=given.tag or None,
        task_id=given.task_id or None,
        origin=frozenset(_origin(word, under) for word in origin),
        fingerprint=given.fingerprint or None,
        session=getattr(given, "worker_id", "") or None,
        made_before=None if created_before is None else ids.first_run(created_before),
    )


def refuse_empty(given: DeadLetterFilter | JobsFilter) -> None:
    """Refuse the empty filter of a body, so that a request does not select everything by mistake, and a filter that
    combines `all` with other fields."""
    narrowed = given != type(given)(all=given.all, created_before=given.created_before)
    if given.all and narrowed:
        raise Invalid("'all' selects everything; remove it, or the other fields", "/filter/all")
    if not given.all and not narrowed:
        raise Invalid('an empty filter would select everything; to do that, write {"all": true}', "/filter")


def time_of(given: str | int, name: str, under: str = "/query") -> Micros | None:
    """Parse an instant: RFC 3339, or milliseconds since the epoch. Return None for an empty text."""
    text = str(given)
    if not text:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 16:
        at = int(text) * MILLISECOND
        if at > instant.MAX:
            raise Invalid(f"{text} milliseconds since 1970 are after the year 9999", _at(name, under))
        return at
    # A plus sign that was not escaped arrives as a space.
    return instant.parse(re.sub(r"([Tt].*) (\d\d:?\d\d)$", r"\1+\2", text), _at(name, under))


def log_cursor(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise Invalid(f"{text!r} is not a cursor of this list", _at("cursor"))
    return int(text)


def _at(name: str, under: str = "/query") -> str:
    return f"{under}/{name[:100]}"


def _words(given: str | list[str]) -> list[str]:
    """Split one or several words: with commas between them, or in a list."""
    text = given if isinstance(given, str) else ",".join(given)
    return [word for word in (part.strip() for part in text.split(",")) if word]


def _job_status(word: str, under: str) -> str:
    found = JOB_STATUSES.get(word.lower())
    if found is None:
        raise _unknown(word, JOB_STATUSES, _at("status", under))
    return found


def _run_statuses(word: str, under: str) -> frozenset[Status]:
    if word == "FAILED":
        return frozenset(GAVE_UP)  # upper case is the legacy vocabulary, which has no dead letters
    found = WORDS.get(word.lower())
    if found is None:
        raise _unknown(word, WORDS, _at("status", under))
    return found


def _origin(word: str, under: str) -> Origin:
    try:
        return Origin(word.lower())
    except ValueError:
        raise _unknown(word, [origin.value for origin in Origin], _at("origin", under)) from None


def _unknown(word: str, known: Collection[str], at: str) -> Invalid:
    return Invalid(f"{word[:100]!r} is not one of {', '.join(known)}{did_you_mean(word, known)}", at)
