"""The route of usage and cost, as JSON or CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from timeball.api.query import PageQuery, Text, Time, time_of
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.domain import instant
from timeball.domain.errors import Invalid, NotFound
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import DAY, Micros, render
from timeball.domain.retention import day_of
from timeball.domain.usage import MAX_USAGE_DAYS, USAGE_KEYS, Usage, UsageKey
from timeball.ports.store.paging import Page
from timeball.ports.store.tenants import UsageFilter

DEFAULT_DAYS: Final = 30
CSV: Final = b"text/csv; charset=utf-8"
CSV_PAGE: Final = 1_000
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_FORMULA: Final = re.compile(r"[\s'\"]*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
"""The beginning of a text that a spreadsheet may execute as a formula."""


class UsageQuery(PageQuery, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    since: Annotated[Time, Meta(description="First day, in UTC, such as `2026-11-01`. Default: 30 days back.")] = (
        msgspec.field(name="from", default="")
    )
    until: Annotated[Time, Meta(description="End of the range, exclusive. Default: the end of today.")] = msgspec.field(
        name="to", default=""
    )
    group_by: Annotated[Text, Meta(description="Some of `tenant`, `user`, `job` and `day`, with commas.")] = (
        "tenant,day"
    )
    tenant_id: Annotated[Text, Meta(description="Only this tenant.")] = ""
    user_id: Text | UnsetType = UNSET
    job_id: Text = ""
    format: Annotated[
        Literal["", "json", "csv"], Meta(description="`csv`: all items as CSV, like `Accept: text/csv`.")
    ] = ""


class UsageView(Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The usage of a group. The fields by which the list is not grouped are left out."""

    tenant_id: str | UnsetType = UNSET
    user_id: str | UnsetType = UNSET
    """The user of the jobs; empty for jobs without one."""
    job_id: str | UnsetType = UNSET
    """Empty for jobs that were deleted with their runs."""
    job_name: str | UnsetType = UNSET
    day: str | UnsetType = UNSET
    """The day in UTC on which attempts and runs ended."""
    runs: int
    """Runs that ended and of which an attempt had started."""
    attempts: int
    """Attempts that started and ended."""
    attempt_seconds: str
    """Seconds of these attempts. All decimal numbers are texts, and exact."""
    cpu_seconds: str
    """Seconds of each CPU that the attempts asked for."""
    memory_gib_seconds: str
    """Seconds of each GiB of memory that the attempts asked for."""
    output_bytes: int
    """Size of output and results."""
    cost: str
    """The cost at the prices of each tenant and day."""


class UsageList(Struct, frozen=True, rename="camel"):
    since: str = msgspec.field(name="from")
    until: str = msgspec.field(name="to")
    group_by: list[UsageKey]
    items: list[UsageView]
    next_cursor: str | None


async def read_usage(call: Call) -> Answer:
    query: UsageQuery = call.query
    where = await _filter(call, query)
    if query.format == "csv" or (not query.format and b"text/csv" in call.headers.get(b"accept", b"")):
        if query.cursor:
            raise Invalid("CSV has all items, and no cursor", "/query/cursor")
        name = b'attachment; filename="usage.csv"'
        return Answer(_as_csv(call, where), 200, CSV, [(b"content-disposition", name)])
    page = await _page(call, where, query.cursor or None, query.limit)
    return answer_json(
        UsageList(
            render(where.since),
            render(where.until),
            [*where.by],
            await _views(call, where.by, page.items),
            page.next_cursor,
        )
    )


async def _filter(call: Call, query: UsageQuery) -> UsageFilter:
    until = _day_of(query.until, "to", after=True)
    if until is None:
        until = day_of(call.context.store.now()) + DAY
    since = _day_of(query.since, "from")
    if since is None:
        since = max(0, until - DEFAULT_DAYS * DAY)
    if since >= until:
        raise Invalid("'from' is not before 'to'", "/query/from")
    if until - since > MAX_USAGE_DAYS * DAY:
        raise Invalid(f"the range has more than {MAX_USAGE_DAYS} days", "/query/from")
    tenants = await _tenants(call, query.tenant_id)
    prices = await call.context.store.price_lists(tenants)
    return UsageFilter(
        tenants=prices,
        since=since,
        until=until,
        by=_keys(query.group_by),
        user=None if query.user_id is UNSET else query.user_id,
        job=query.job_id or None,
    )


async def _tenants(call: Call, only: str) -> Sequence[str]:
    """Return the tenants whose usage the caller reads: that of the credential, or all, if it may see them."""
    if not call.caller.may(Permission.SYSTEM):
        if only not in ("", call.tenant):
            raise NotFound("tenant", only[:100])
        return [call.tenant]
    known = [tenant.id for tenant in await call.context.store.tenants()]
    if only and only not in known:
        raise NotFound("tenant", only[:100])
    return [only] if only else known


def _keys(text: str) -> list[UsageKey]:
    words = [word.strip() for word in text.split(",")]
    found = [key for key in USAGE_KEYS if key in words]
    if len(found) < len(words):
        known = ", ".join(USAGE_KEYS)
        raise Invalid(f"{text!r} is not a list of different words among: {known}", "/query/groupBy")
    return found


def _day_of(text: str, name: str, *, after: bool = False) -> Micros | None:
    """Return the first instant of a day, in UTC, that is given as a date or as a time of that day. With `after`, a time
    in the middle of a day stands for the end of that day."""
    at = time_of(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text, name)
    return None if at is None else day_of(at + DAY - 1 if after else at)


async def _page(call: Call, where: UsageFilter, cursor: str | None, limit: int) -> Page[Usage]:
    try:
        return await call.context.store.usage(where, cursor, limit)
    except Invalid as error:
        raise Invalid(error.detail, "/query/cursor") from None


async def _views(call: Call, by: Sequence[UsageKey], items: Iterable[Usage]) -> list[UsageView]:
    items = [*items]
    jobs = await call.context.store.jobs([each.job for each in items if each.job]) if "job" in by else {}

    def view(each: Usage) -> UsageView:
        keys: dict[str, Any] = {}
        if each.tenant is not None:
            keys["tenant_id"] = each.tenant
        if each.user is not None:
            keys["user_id"] = each.user
        if each.job is not None:
            found = jobs.get(each.job)
            keys |= {"job_id": each.job, "job_name": "" if found is None else found.job.spec.name}
        if each.day is not None:
            keys["day"] = f"{instant.to_datetime(each.day):%Y-%m-%d}"
        amounts = each.amounts
        return UsageView(
            **keys,
            runs=amounts.runs,
            attempts=amounts.attempts,
            attempt_seconds=_text(amounts.attempt_seconds),
            cpu_seconds=_text(amounts.cpu_seconds),
            memory_gib_seconds=_text(amounts.memory_gib_seconds),
            output_bytes=amounts.bytes,
            cost=_text(each.cost),
        )

    return [view(each) for each in items]


def _text(number: Decimal) -> str:
    return f"{number:f}"


async def _as_csv(call: Call, where: UsageFilter) -> AsyncIterator[bytes]:
    names = [name for name in UsageView.__struct_encode_fields__ if _is_shown(name, where.by)]
    yield _lines([names])
    cursor: str | None = None
    while True:
        page = await _page(call, where, cursor, CSV_PAGE)
        rows = [msgspec.to_builtins(view) for view in await _views(call, where.by, page.items)]
        yield _lines([_harmless(row[name]) for name in names] for row in rows)
        cursor = page.next_cursor
        if cursor is None:
            return


def _is_shown(name: str, by: Sequence[UsageKey]) -> bool:
    key = {"tenantId": "tenant", "userId": "user", "jobId": "job", "jobName": "job", "day": "day"}.get(name)
    return key is None or key in by


def _lines(rows: Iterable[Sequence[object]]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerows(rows)
    return buffer.getvalue().encode()


def _harmless(value: object) -> object:
    """Return a value that no spreadsheet executes: a text that looks like a formula begins with an apostrophe."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/usage",
        permission=Permission.READ,
        summary="Read usage and cost",
        description=(
            "What attempts used, and what that costs, by any of tenant, user, job and day: that of the credential's"
            " tenant, or of all tenants with the permission `system`. It counts attempts that have ended, at most a"
            " moment ago. `Accept: text/csv` or `format=csv` returns all items as CSV."
        ),
        handle=read_usage,
        query=UsageQuery,
        answer=UsageList,
        lasts=True,
        problems=(404,),
    ),
)
