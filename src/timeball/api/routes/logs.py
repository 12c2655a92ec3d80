"""Output of runs: as text, as pages of JSON, or live."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import msgspec
from msgspec import UNSET, Struct

from timeball.api.query import LogsQuery, log_cursor
from timeball.api.route import TEXT, Answer, Call, answer_json
from timeball.domain.errors import NotFound
from timeball.domain.instant import MILLISECOND, render
from timeball.domain.run import Run
from timeball.operation.find import find_run
from timeball.ports.hints import Topic
from timeball.ports.store import LogLine

PAGE: Final = 1_000
GLANCE: Final = 250 * MILLISECOND
"""How often a live log is looked at; the end of the run is noticed at once."""


class LogChunkView(Struct, frozen=True, rename="camel"):
    attempt: int
    seq: int
    stream: str
    at: str
    text: str


class LogPage(Struct, frozen=True, rename="camel"):
    items: list[LogChunkView]
    next_cursor: str | None


async def answer_logs(call: Call, run: Run | None, query: LogsQuery) -> Answer:
    """Text unless the client asks for JSON; a page of that as one document, or everything line by line."""
    attempt = None if query.attempt is UNSET else query.attempt
    after = log_cursor(query.cursor)
    accept = call.headers.get(b"accept", b"")
    if b"ndjson" in accept:
        chunks = _chunks(call, run, attempt, after, query.follow)
        return Answer((_line(chunk) async for chunk in chunks), content_type=b"application/x-ndjson")
    if b"application/json" in accept:
        found = [] if run is None else await call.context.store.logs(run.id, attempt, after, query.limit)
        more = str(_position(found[-1])) if len(found) == query.limit else None
        return answer_json(LogPage([_view(chunk) for chunk in found], more))
    if query.follow:
        chunks = _chunks(call, run, attempt, after, True)
        return Answer((chunk.text.encode() async for chunk in chunks), content_type=TEXT)
    text = [chunk.text async for chunk in _chunks(call, run, attempt, after, False)]
    return Answer("".join(text).encode(), content_type=TEXT)


async def _chunks(call: Call, run: Run | None, attempt: int | None, after: int, follow: bool) -> AsyncIterator[LogLine]:
    """Output so far; with `follow`, also what comes until the run has ended, or is dropped, or the server stops."""
    context = call.context
    while run is not None:
        ended = run.is_terminal
        while found := await context.store.logs(run.id, attempt, after, PAGE):
            for chunk in found:
                yield chunk
            after = _position(found[-1])
        if ended or not follow or call.services.stopping():
            return
        await context.hints.wait(Topic.ENDED, GLANCE)
        try:
            run = await find_run(context, run.tenant, run.id)
        except NotFound:
            # An edit or a pause drops runs that have not started.
            return


def _position(chunk: LogLine) -> int:
    return chunk.attempt * 1_000_000 + chunk.seq


def _view(chunk: LogLine) -> LogChunkView:
    return LogChunkView(chunk.attempt, chunk.seq, chunk.stream, render(chunk.at), chunk.text)


def _line(chunk: LogLine) -> bytes:
    return msgspec.json.encode(_view(chunk)) + b"\n"
