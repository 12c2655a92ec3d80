"""The route that previews a schedule before it is saved."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from timeball.api.bodies import CronPreviewBody, PreviewBody
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.domain import instant
from timeball.domain.errors import Invalid, InvalidSchedule
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import render
from timeball.domain.preview.preview import UNBOUND, Bounds, Fire, Mark, preview
from timeball.domain.schedule.schedule import SLOT, Date, Immediate, Window
from timeball.jobspec import json_input
from timeball.jobspec.shapes import Document, Origins, normalise, point_back
from timeball.jobspec.validation_text import explain
from timeball.operation.schedules.closed_times import named_closures
from timeball.slices import beside

_CRON_FIELDS: Final = ("expression", "timezone", "dstGap", "dstOverlap")


class PreviewFire(Struct, frozen=True, rename="camel", kw_only=True):
    at: str
    local: str
    """The same instant as local time in the time zone of the schedule."""
    mark: Mark | UnsetType = UNSET
    """`dst_gap`: the local time does not exist on that day, and the fire was moved here; `dst_overlap`: the local time
    occurs twice; `excluded`: a calendar is closed; `next_open`: the calendar opens, and the excluded fires run once.
    """
    note: str | UnsetType = UNSET


class PreviewAnswer(Struct, frozen=True, rename="camel"):
    description: str
    fires: list[PreviewFire]
    warnings: list[str]


async def preview_schedule(call: Call) -> Answer:
    await json_input.check_in_slices(call.raw, call.context.clock)
    body = _read(call.raw)
    begin = call.context.store.now() if body.after is None else instant.parse(body.after, "/after")
    spread = f"{call.tenant}/{body.name}" if body.name else ""
    # The search for a rare day continues until the year 9999, which takes a while. So it runs in a thread and does not
    # block the event loop.
    if isinstance(body.schedule, Window):
        spread = f"{SLOT}{await call.context.store.slot_for(body.schedule)}"
    closures = await named_closures(call.context, call.tenant, body.calendars)
    found = await beside(preview, body.schedule, begin, body.count, spread, closures, body.excluded, _bounds(body))
    return answer_json(PreviewAnswer(found.description, [_fire(fire) for fire in found.fires], list(found.warnings)))


def _bounds(body: PreviewBody) -> Bounds:
    given = {"startAt": body.start_at, "endAt": body.end_at, "maxRuns": body.max_runs}
    named = [name for name, value in given.items() if value is not None]
    if not named:
        return UNBOUND
    if isinstance(body.schedule, Immediate | Date):
        raise Invalid(f"only a schedule that repeats has a {named[0]}, and this one fires once", f"/{named[0]}")
    starts = None if body.start_at is None else instant.parse(body.start_at, "/startAt")
    ends = None if body.end_at is None else instant.parse(body.end_at, "/endAt")
    if starts is not None and ends is not None and ends < starts:
        raise Invalid(f"{body.end_at} is before startAt, which is {body.start_at}", "/endAt")
    return Bounds(starts, ends, body.max_runs)


def _fire(fire: Fire) -> PreviewFire:
    return PreviewFire(
        at=render(fire.at), local=fire.local.isoformat(), mark=fire.mark or UNSET, note=fire.note or UNSET
    )


def _read(raw: bytes) -> PreviewBody:
    document = json_input.parse(raw)
    if not isinstance(document, dict):
        raise Invalid("the body of a preview has to be a JSON object")
    canonical, origins = _canonical({name: value for name, value in document.items() if value is not None})
    try:
        return msgspec.convert(canonical, PreviewBody)
    except msgspec.ValidationError as error:
        found = explain(error, PreviewBody, canonical, dict.fromkeys(_CRON_FIELDS, ""))
        refused = InvalidSchedule if found.pointer.startswith("/schedule") else Invalid
        raise refused(found.detail, point_back(found.pointer, origins)) from None


def _canonical(given: Document) -> tuple[Document, Origins]:
    """Return the schedule in its canonical shape."""
    flat = {name: given.pop(name) for name in _CRON_FIELDS if name in given}
    if "schedule" not in given:
        origins = {f"/schedule/{name}": f"/{name}" for name in _CRON_FIELDS}
        return ({**given, "schedule": {"type": "cron", **flat}}, origins) if flat else (given, {})
    for name in flat:
        raise Invalid(f"{name!r} belongs in the schedule; leave out this one, or the schedule", f"/{name}")
    return {**given, **normalise({"schedule": given["schedule"]})[0]}, {}


ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/schedules:preview",
        permission=Permission.READ,
        summary="Preview a schedule",
        description=(
            "Returns a description in English, the next fires with marks for clock changes and calendars, and warnings."
        ),
        handle=preview_schedule,
        body=(PreviewBody, CronPreviewBody),
        reads_raw=True,
        answer=PreviewAnswer,
        example={"schedule": {"type": "cron", "expression": "30 2 * * *", "timezone": "Europe/Berlin"}, "count": 5},
    ),
)
