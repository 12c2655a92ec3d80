"""Routes of calendars, which jobs refer to by name."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec import Struct

from timeball.api.bodies import CalendarPreviewBody
from timeball.api.query import PageQuery
from timeball.api.routes.jobs.jobs import if_match
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.api.rows import rows
from timeball.domain import instant
from timeball.domain.errors import Invalid, NotFound
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import DAY, Micros, render
from timeball.domain.schedule.calendar import Calendar, NamedCalendar
from timeball.domain.schedule.closed_spans import MAX_RANGE, ClosedSpan, closed_spans
from timeball.jobspec import json_input
from timeball.operation.schedules.check_calendar import check_calendar
from timeball.operation.schedules.delete_calendar import delete_calendar
from timeball.operation.schedules.put_calendar import put_calendar
from timeball.slices import in_slices

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,199}", re.ASCII)
_EXAMPLE: Final = {
    "timezone": "Europe/Berlin",
    "entries": [
        {"from": "2026-12-20T00:00", "to": "2027-01-03T00:00", "reason": "year-end freeze"},
        {"dates": ["2026-10-03", "2027-05-01"], "reason": "public holiday"},
        {"cron": "0 22 * * FRI", "for": "58h", "reason": "weekend"},
    ],
}
_typed = msgspec.json.Decoder(Calendar)
_previewed = msgspec.json.Decoder(CalendarPreviewBody)
PREVIEW_RANGE: Final = 31 * DAY


class CalendarView(Calendar, frozen=True, rename="camel", omit_defaults=False, kw_only=True):
    name: str
    version: int
    updated_at: str


class CalendarList(Struct, frozen=True, rename="camel"):
    items: list[CalendarView]
    next_cursor: str | None


class ClosedTimeView(Struct, frozen=True, rename="camel", kw_only=True):
    since: str = msgspec.field(name="from")
    until: str = msgspec.field(name="to")
    entry: int
    """The position in `entries`, from 0 on, of the entry that closes this time. If several entries do, it is the first
    of them, where entries with `cron` come after the others."""
    reason: str
    """The reason of the entry, and its time."""


class CalendarPreviewAnswer(Struct, frozen=True, rename="camel", kw_only=True):
    since: str = msgspec.field(name="from")
    until: str = msgspec.field(name="to")
    """The end of the range that `closed` covers. It is before the requested end if there are more than 2,000 closed
    times: ask again from there."""
    closed: list[ClosedTimeView]
    """Closed times, cut to the range. They do not overlap."""


async def list_calendars(call: Call) -> Answer:
    query: PageQuery = call.query
    page = await call.context.store.list_calendars(call.tenant, query.cursor or None, query.limit)
    shown = rows(page.items, _view, "name", lambda each: each.name)
    return answer_json({"items": shown, "nextCursor": page.next_cursor})


async def read(call: Call) -> Answer:
    name = _known_form(call)
    found = (await call.context.store.calendars([(call.tenant, name)])).get((call.tenant, name))
    if found is None:
        raise NotFound("calendar", name)
    return _answer(found)


async def put(call: Call) -> Answer:
    name = call.path["name"]
    if not _NAME.fullmatch(name):
        raise Invalid("the name of a calendar has 1 to 200 letters, digits and . _ : @ -", "/path/name")
    calendar = await json_input.read(call.raw, _typed, call.context.clock)
    saved = await put_calendar(call.context, call.tenant, name, calendar, if_match=if_match(call))
    return _answer(saved, 201 if saved.version == 1 else 200)


async def delete(call: Call) -> Answer:
    await delete_calendar(call.context, call.tenant, _known_form(call))
    return Answer(status=204)


async def preview(call: Call) -> Answer:
    body: CalendarPreviewBody = await json_input.read(call.raw, _previewed, call.context.clock)
    since, until = _range(body, call.context.store.now())
    try:
        await check_calendar(call.context, call.tenant, "", body.calendar)
    except Invalid as error:
        raise Invalid(error.detail, f"/calendar{error.problems[0].pointer}") from None
    found = await in_slices(closed_spans(body.calendar, since, until), call.context.clock)
    closed = [_closed_time(span) for span in found.spans]
    return answer_json(CalendarPreviewAnswer(since=render(since), until=render(found.until), closed=closed))


def _range(body: CalendarPreviewBody, now: Micros) -> tuple[Micros, Micros]:
    since = now if body.since is None else instant.parse(body.since, "/from")
    until = min(since + PREVIEW_RANGE, instant.MAX) if body.until is None else instant.parse(body.until, "/to")
    if until <= since:
        raise Invalid(f"{render(until)} is not after 'from', which is {render(since)}", "/to")
    if until - since > MAX_RANGE:
        raise Invalid(f"a preview covers at most {MAX_RANGE // DAY} days", "/to")
    return since, until


def _closed_time(span: ClosedSpan) -> ClosedTimeView:
    return ClosedTimeView(since=render(span.since), until=render(span.until), entry=span.entry, reason=span.label)


def _known_form(call: Call) -> str:
    name = call.path["name"]
    if not _NAME.fullmatch(name):
        raise NotFound("calendar", name[:100])
    return name


def _answer(found: NamedCalendar, status: int = 200) -> Answer:
    return answer_json(_view(found), status, [(b"etag", b'"%d"' % found.version)])


def _view(found: NamedCalendar) -> dict[str, Any]:
    return {
        "name": found.name,
        "timezone": found.calendar.timezone,
        "description": found.calendar.description,
        "entries": found.calendar.entries,
        "version": found.version,
        "updatedAt": render(found.updated_at),
    }


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/calendars",
        permission=Permission.READ,
        summary="List calendars",
        handle=list_calendars,
        query=PageQuery,
        answer=CalendarList,
    ),
    Route(
        method="GET",
        path="/v1/calendars/{name}",
        permission=Permission.READ,
        summary="Read a calendar",
        handle=read,
        answer=CalendarView,
        problems=(404,),
    ),
    Route(
        method="PUT",
        path="/v1/calendars/{name}",
        permission=Permission.EDIT,
        summary="Create or replace a calendar",
        audit="calendar.put",
        description=(
            "201 if it is new. When the answer arrives, no later fire uses the old calendar. Each entry has"
            " `dates`, or `from` and `to`, or `cron` and `for`."
        ),
        handle=put,
        body=Calendar,
        headers={"If-Match": "The version (`ETag`) that the change is based on; 412 if it is not current."},
        problems=(412,),
        reads_raw=True,
        answer=CalendarView,
        example=_EXAMPLE,
    ),
    Route(
        method="POST",
        path="/v1/calendars:preview",
        permission=Permission.READ,
        summary="Preview a calendar",
        description=(
            "Returns the closed times of a calendar in a range of time, with the entry and the reason of each. Nothing"
            " is stored. A calendar that `PUT` would refuse is refused in the same way."
        ),
        handle=preview,
        body=CalendarPreviewBody,
        reads_raw=True,
        answer=CalendarPreviewAnswer,
        example={"calendar": _EXAMPLE, "from": "2026-12-01T00:00:00Z", "to": "2027-01-10T00:00:00Z"},
    ),
    Route(
        method="DELETE",
        path="/v1/calendars/{name}",
        permission=Permission.EDIT,
        summary="Remove a calendar",
        audit="calendar.delete",
        description="Refused while a job that may still fire refers to it.",
        handle=delete,
        status=204,
        problems=(404, 409),
    ),
)
