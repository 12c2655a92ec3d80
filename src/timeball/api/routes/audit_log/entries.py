"""Routes that list and export the audit log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from timeball.api.query import PageQuery, Text, Time, time_of
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.api.rows import rows
from timeball.domain.audit_log.document import (
    EXPORT_FORMAT,
    AuditEntryView,
    AuditExportHead,
    AuditHeadView,
    view_of,
)
from timeball.domain.audit_log.entry import SYSTEM_CHAIN, AuditEntry
from timeball.domain.errors import Invalid, Unavailable
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import render
from timeball.operation.audit_log.export import pages
from timeball.ports.store.audit_log import AuditFilter, ChainEnd
from timeball.slices import map_in_slices

MAX_CURSOR_LENGTH: Final = 18
MAX_ENCODED_TOGETHER: Final = 4
"""Number of entries that are encoded before the event loop may get a turn. Each takes up to a millisecond."""

Scope = Annotated[
    Literal["tenant", "system"],
    Meta(
        description="`tenant`: the changes in the credential's tenant. `system`: those that belong to no tenant, such"
        " as those of tenants and workers; this needs the permission `system`."
    ),
]


class AuditLogQuery(PageQuery, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    scope: Scope = "tenant"
    actor: Annotated[Text, Meta(description="Id or name of a credential, or id of a user.")] = ""
    action: Annotated[Text, Meta(description="An action, such as `job.pause`; `job.*`: all of jobs.")] = ""
    resource: Annotated[Text, Meta(description="Id or name of what was changed.")] = ""
    since: Annotated[Time, Meta(description="Start of the range.")] = msgspec.field(name="from", default="")
    until: Annotated[Time, Meta(description="End of the range, exclusive.")] = msgspec.field(name="to", default="")


class AuditExportQuery(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    scope: Scope = "tenant"


class AuditEntryList(Struct, frozen=True, rename="camel"):
    items: list[AuditEntryView]
    next_cursor: str | None


async def list_entries(call: Call) -> Answer:
    query: AuditLogQuery = call.query
    where = AuditFilter(
        chain=_chain(call, query.scope),
        actor=query.actor or None,
        action=query.action or None,
        resource=query.resource or None,
        since=time_of(query.since, "from"),
        until=time_of(query.until, "to"),
    )
    is_number = query.cursor.isascii() and query.cursor.isdigit() and len(query.cursor) <= MAX_CURSOR_LENGTH
    if query.cursor and not is_number:
        raise Invalid(f"{query.cursor[:64]!r} is not a cursor of this list; use the last `nextCursor`", "/query/cursor")
    page = await call.context.store.audit_log(where, query.cursor or None, query.limit)
    shown = rows(page.items, view_of, "seq", lambda entry: entry.seq)
    return answer_json({"items": shown, "nextCursor": page.next_cursor})


async def export(call: Call) -> Answer:
    query: AuditExportQuery = call.query
    chain = _chain(call, query.scope)
    call.context.audit_exports.check_room(call.caller.credential)
    end = await call.context.store.audit_end(chain)
    return Answer(_lines(call, chain, end), content_type=b"application/x-ndjson")


def _chain(call: Call, scope: str) -> str:
    if scope == "system":
        call.caller.require(Permission.SYSTEM)
        return SYSTEM_CHAIN
    return call.tenant


async def _lines(call: Call, chain: str, end: ChainEnd) -> AsyncIterator[bytes]:
    """Yield the head and the entries of a chain, as it was when the request arrived. A page is encoded in slices."""
    store, head = call.context.store, end.head
    with call.context.audit_exports.counted(call.caller.credential):
        first = AuditExportHead(
            format=EXPORT_FORMAT,
            chain=chain,
            head=None if head is None else AuditHeadView(head.seq, head.hash),
            exported_at=render(store.now()),
        )
        yield msgspec.json.encode(first) + b"\n"
        async for page in pages(store, chain, end.last):
            if call.services.stopping():  # an export that simply ended would look as if entries had been deleted
                raise Unavailable("the server is stopping; export the audit log again")
            clock = call.context.clock
            lines: list[bytes] = await map_in_slices(_encoded, page, clock, together=MAX_ENCODED_TOGETHER)
            yield b"".join(lines)


def _encoded(entries: Sequence[AuditEntry]) -> list[bytes]:
    return [msgspec.json.encode(view_of(entry)) + b"\n" for entry in entries]


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/audit-log",
        permission=Permission.ADMIN,
        summary="List the entries of the audit log, newest first",
        description=(
            "Each request that changes something has one entry. With a filter, a page may be short or empty although"
            " there is a next one."
        ),
        handle=list_entries,
        query=AuditLogQuery,
        answer=AuditEntryList,
    ),
    Route(
        method="GET",
        path="/v1/audit-log/export",
        permission=Permission.ADMIN,
        summary="Export the audit log",
        description=(
            "All entries of a chain, oldest first, one line of JSON each. The first line has the number and the hash of"
            " the last entry. `timeball audit-log verify FILE` checks it."
        ),
        handle=export,
        lasts=True,
        query=AuditExportQuery,
        answer=(AuditExportHead, AuditEntryView),
        content_type="application/x-ndjson",
        problems=(429,),
    ),
)
