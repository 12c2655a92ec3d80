"""Routes of calendars, which jobs refer to by name."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec import Struct

from timeball.api.query import PageQuery
from timeball.api.routing import Answer, Call, Permission, Route, answer_json
from timeball.api.rows import rows
from timeball.domain.errors import Invalid, NotFound
from timeball.domain.instant import render
from timeball.domain.schedule.calendar import Calendar, NamedCalendar
from timeball.jobspec import json_input
from timeball.operation.schedules.delete_calendar import delete_calendar
from timeball.operation.schedules.put_calendar import put_calendar

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


class CalendarView(Calendar, frozen=True, rename="camel", omit_defaults=False, kw_only=True):
    name: str
    version: int
    updated_at: str


class CalendarList(Struct, frozen=True, rename="camel"):
    items: list[CalendarView]
    next_cursor: str | None


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
    return answer_json(_view(found))


async def put(call: Call) -> Answer:
    name = call.path["name"]
    if not _NAME.fullmatch(name):
        raise Invalid("the name of a calendar has 1 to 200 letters, digits and . _ : @ -", "/path/name")
    calendar = await json_input.read(call.raw, _typed, call.context.clock)
    saved = await put_calendar(call.context, call.tenant, name, calendar)
    return answer_json(_view(saved), 201 if saved.version == 1 else 200)


async def delete(call: Call) -> Answer:
    await delete_calendar(call.context, call.tenant, _known_form(call))
    return Answer(status=204)


def _known_form(call: Call) -> str:
    name = call.path["name"]
    if not _NAME.fullmatch(name):
        raise NotFound("calendar", name[:100])
    return name


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
        permission=Permission.WRITE,
        summary="Create or replace a calendar",
        description=(
            "201 if it is new. When the answer arrives, no later fire uses the old calendar. Each entry has"
            " `dates`, or `from` and `to`, or `cron` and `for`."
        ),
        handle=put,
        body=Calendar,
        reads_raw=True,
        answer=CalendarView,
        example=_EXAMPLE,
    ),
    Route(
        method="DELETE",
        path="/v1/calendars/{name}",
        permission=Permission.WRITE,
        summary="Remove a calendar",
        description="Refused while a job that may still fire refers to it.",
        handle=delete,
        status=204,
        problems=(404, 409),
    ),
)
