"""The route that lists the definitions of a job: the current one and former ones."""

from __future__ import annotations

from typing import Final

from msgspec import MsgspecError, Struct

from timeball.api.query import PageQuery
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.api.rows import rows
from timeball.domain.errors import Invalid
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import render
from timeball.domain.job.job import JobSpec, decode_spec
from timeball.jobspec.spec_view import SpecView, spec_view
from timeball.operation.find import find_job
from timeball.ports.store.jobs import MAX_VERSIONS, JobVersion


class VersionView(Struct, frozen=True, rename="camel", kw_only=True):
    version: int
    """The first version of the job with this definition."""
    at: str
    """When the job got this definition."""
    by: str | None
    """The name of the API key of the request; null if the job was created with this definition, or if the name is not
    known."""
    job: SpecView
    """The definition. It can be sent as an update, to restore it."""


class VersionList(Struct, frozen=True, rename="camel"):
    items: list[VersionView]
    next_cursor: str | None


async def list_versions(call: Call) -> Answer:
    query: PageQuery = call.query
    await find_job(call.context, call.tenant, call.job_id)
    page = await call.context.store.versions(call.job_id, _cursor(query), query.limit)
    specs = {each.version: await _spec(call, each) for each in page.items}

    def view(each: JobVersion) -> VersionView:
        spec = specs[each.version]
        if isinstance(spec, Exception):
            raise spec
        return VersionView(version=each.version, at=render(each.at), by=each.by, job=spec_view(spec))

    shown = rows(page.items, view, "version", lambda each: each.version)
    return answer_json({"items": shown, "nextCursor": page.next_cursor})


async def _spec(call: Call, version: JobVersion) -> JobSpec | MsgspecError:
    """Return the definition with its parameters; an error if this version of Timeball cannot decode it."""
    try:
        spec = decode_spec(version.spec)
    except MsgspecError as error:
        return error
    return await call.context.large_value_store.whole(spec)


def _cursor(query: PageQuery) -> str | None:
    cursor = query.cursor
    if cursor and not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise Invalid(f"{cursor[:64]!r} is not a cursor of this list; use the last `nextCursor`", "/query/cursor")
    return cursor or None


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/jobs/{jobId}/versions",
        permission=Permission.READ,
        summary="List the definitions of a job, newest first",
        description=(
            f"The current one, and at most {MAX_VERSIONS} former ones. Each update that changes something keeps the"
            " definition before it, as long as runs of the job are kept. A pause or a resume makes a version number,"
            " but no other definition."
        ),
        handle=list_versions,
        query=PageQuery,
        answer=VersionList,
        problems=(404,),
    ),
)
