"""The output of runs: as text, as pages of JSON, or live."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

import msgspec
from msgspec import UNSET, Struct

from timeball.api.query import LogsQuery, log_cursor
from timeball.api.routing import TEXT, Answer, Call, answer_json
from timeball.domain.errors import Invalid, NotFound
from timeball.domain.instant import SECOND, render
from timeball.domain.run.run import Run
from timeball.operation.find import Logs, find_run
from timeball.operation.runs.search_logs import PLACES, place_of, search_logs
from timeball.ports.store.queries import LogLine

PAGE: Final = 1_000
MAX_WAIT: Final = 60 * SECOND
"""Microseconds after which a request that follows the output of a run reads the run again, even if no change of it was
reported.
"""


class LogChunkView(Struct, frozen=True, rename="camel"):
    attempt: int
    seq: int
    stream: str
    at: str
    text: str


class LogPage(Struct, frozen=True, rename="camel"):
    items: list[LogChunkView]
    next_cursor: str | None


async def answer_logs(call: Call, run: Run | None, query: LogsQuery, archived: Logs | None = None) -> Answer:
    """Answer with text, unless the client asks for JSON: one page as a document, or everything line by line. `archived`
    reads the output of an archived run.
    """
    attempt = None if query.attempt is UNSET else query.attempt
    after = log_cursor(query.cursor)
    accept = call.headers.get(b"accept", b"")
    logs = archived or partial(call.context.large_value_store.logs, call.context.store)
    if query.search:
        return await _answer_search(call, logs, run, query)
    if query.follow and archived is None:
        if run is not None and not run.is_terminal:
            call.context.run_events.check_room(call.caller.credential)
        chunks = _followed(call, run, attempt, after)
    else:
        chunks = _written(logs, run, attempt, after)
    if b"ndjson" in accept:
        lines = (_line(chunk) async for chunk in chunks)
        return Answer(lines, content_type=b"application/x-ndjson")
    if b"application/json" in accept:
        found = [] if run is None else await logs(run.id, attempt, after, query.limit)
        more = str(place_of(found[-1])) if len(found) == query.limit else None
        return answer_json(LogPage([_view(chunk) for chunk in found], more))
    if query.follow:
        live = (chunk.text.encode() async for chunk in chunks)
        return Answer(live, content_type=TEXT)
    text = [chunk.text async for chunk in chunks]
    return Answer("".join(text).encode(), content_type=TEXT)


async def _answer_search(call: Call, logs: Logs, run: Run | None, query: LogsQuery) -> Answer:
    """Answer with the lines that contain a text: a page of JSON, or all of them as text."""
    if query.follow:
        raise Invalid("follow waits for new output, and search reads the output so far: use one of them", "/search")
    attempt = None if query.attempt is UNSET else query.attempt
    after: int | None = log_cursor(query.cursor)
    if b"application/json" in call.headers.get(b"accept", b""):
        if run is None or after is None:
            return answer_json(LogPage([], None))
        found = await search_logs(logs, run.id, attempt, after, query.search, query.limit)
        return answer_json(
            LogPage([_view(line) for line in found.lines], None if found.after is None else str(found.after))
        )

    async def lines(after: int | None) -> AsyncIterator[bytes]:
        while run is not None and after is not None:
            found = await search_logs(logs, run.id, attempt, after, query.search)
            after = found.after
            yield b"".join(f"{line.text}\n".encode() for line in found.lines)

    return Answer(lines(after), content_type=TEXT)


async def _written(logs: Logs, run: Run | None, attempt: int | None, after: int) -> AsyncIterator[LogLine]:
    """Yield the output so far."""
    while run is not None and (found := await logs(run.id, attempt, after, PAGE)):
        for chunk in found:
            yield chunk
        after = place_of(found[-1])


async def _followed(call: Call, run: Run | None, attempt: int | None, after: int) -> AsyncIterator[LogLine]:
    """Yield the output so far, and new output until the run has ended or was deleted, or the server stops.

    A draining worker releases its attempt: its output is deleted, and the next worker counts from 0 again. So every
    read begins at the chunk that was sent last; if that chunk is gone, the attempt is sent from its beginning.
    """
    if run is None:
        return
    context = call.context
    with context.run_events.following(run.id, call.caller.credential) as changed:
        place, last = await _sent_last(call, run, attempt, after)
        while True:
            ended = run.is_terminal
            while True:
                found = await context.large_value_store.logs(
                    context.store, run.id, attempt, place if last is None else place_of(last) - 1, PAGE
                )
                if last is not None and found[:1] != [last]:
                    place, last = _beginning(last.attempt), None
                    continue
                new = found if last is None else found[1:]
                if not new:
                    break
                for chunk in new:
                    yield chunk
                last = new[-1]
            if ended or call.services.stopping():
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(MAX_WAIT / SECOND):
                    await changed.wait()
            changed.clear()
            try:
                run = await find_run(context, run.tenant, run.id)
            except NotFound:
                # An edit or a pause deletes runs that have not started.
                return


async def _sent_last(call: Call, run: Run, attempt: int | None, after: int) -> tuple[int, LogLine | None]:
    """Return where a request with a cursor continues: the position, and the chunk at this position. If the chunk is
    gone, the position is before the attempt, and the chunk is None."""
    if not after or after == _beginning(after // PLACES + 1):
        return after, None
    found = await call.context.large_value_store.logs(call.context.store, run.id, attempt, after - 1, 1)
    if found and place_of(found[0]) == after:
        return after, found[0]
    return _beginning(after // PLACES), None


def _beginning(attempt: int) -> int:
    """Return the position before the first chunk of an attempt."""
    return attempt * PLACES - 1


def _view(chunk: LogLine) -> LogChunkView:
    return LogChunkView(chunk.attempt, chunk.seq, chunk.stream, render(chunk.at), chunk.text)


def _line(chunk: LogLine) -> bytes:
    return msgspec.json.encode(_view(chunk)) + b"\n"
