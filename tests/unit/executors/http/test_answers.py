"""Answers as targets send them byte by byte: framing, interim answers, compression, and what follows an answer."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.support.raw_target import RawRequest, listening, response
from tests.unit.executing import RecordedAttempt
from timeball.domain.run.lifecycle import Outcome, Succeeded
from timeball.domain.task.task import Http
from timeball.executors.http.executor import HttpExecutor

TEXT = b"text " * 100
RAW_DEFLATE = zlib.compressobj(wbits=-zlib.MAX_WBITS)


@pytest.fixture
async def http() -> AsyncIterator[HttpExecutor]:
    executor = HttpExecutor()
    yield executor
    await executor.close()


def kept(outcome: Outcome) -> dict[str, Any]:
    assert isinstance(outcome, Succeeded), outcome
    assert isinstance(outcome.result, msgspec.Raw)
    decoded: dict[str, Any] = msgspec.json.decode(outcome.result)
    return decoded


def compressed(body: bytes, encoding: str) -> bytes:
    return response(body, headers=(f"Content-Encoding: {encoding}",))


def chunked(*chunks: bytes, trailer: bytes = b"") -> bytes:
    framed = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + framed + b"0\r\n" + trailer + b"\r\n"


REUSED = {
    "chunks": (chunked(b"a", b"b", b"c"), "abc"),
    "a trailer": (chunked(b"abc", trailer=b"Content-Type: application/json\r\nX-Sum: 1\r\n"), "abc"),
    "a chunk with an extension": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1\r\nabc\r\n0\r\n\r\n",
        "abc",
    ),
    "100": (b"HTTP/1.1 100 Continue\r\n\r\n" + response(b"abc"), "abc"),
    "an interim answer with headers": (
        b"HTTP/1.1 103 Early Hints\r\nContent-Type: a/json\r\n\r\n" + response(b"1"),
        "1",
    ),
    "unknown interim answers": (b"HTTP/1.1 199 X\r\nA: b\r\n\r\n" * 2 + response(b"abc"), "abc"),
    "an offer to upgrade": (response(b"abc", headers=("Upgrade: h2,h2c", "Connection: Upgrade, Keep-Alive")), "abc"),
    "an empty reason": (b"HTTP/1.1 200 \r\nContent-Length: 3\r\n\r\nabc", "abc"),
    "no reason": (b"HTTP/1.1 200\r\nContent-Length: 3\r\n\r\nabc", "abc"),
    "lines without CR": (b"HTTP/1.1 200 OK\nContent-Length: 3\n\nabc", "abc"),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", ""),
    "204 with a length": (b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", ""),
    "gzip": (compressed(gzip.compress(TEXT), "gzip"), TEXT.decode()),
    "x-gzip": (compressed(gzip.compress(TEXT), "X-GZIP"), TEXT.decode()),
    "deflate": (compressed(zlib.compress(TEXT), "deflate"), TEXT.decode()),
    "raw deflate": (compressed(RAW_DEFLATE.compress(TEXT) + RAW_DEFLATE.flush(), "deflate"), TEXT.decode()),
    "gzip in two members": (compressed(gzip.compress(b"one ") + gzip.compress(b"two"), "gzip"), "one two"),
    "gzip of nothing": (compressed(gzip.compress(b""), "gzip"), ""),
    "no bytes as gzip": (compressed(b"", "gzip"), ""),
    "identity": (compressed(b"abc", "identity"), "abc"),
}
CLOSED = {
    "Connection: close": (response(b"abc", headers=("Connection: close",)), "abc", None),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", "abc", None),
    "gzip with a tail": (compressed(gzip.compress(b"abc") + b"tail", "gzip"), "abc", True),
    "gzip that breaks off": (compressed(gzip.compress(TEXT)[:-9], "gzip"), None, True),
    "gzip that is not": (compressed(b"\x1f\x8b\x08 no", "gzip"), "", True),
    "an unknown encoding": (compressed(b"abc", "br"), "", True),
    "two lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "", True),
    "a length and chunks": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "",
        True,
    ),
    "a negative length": (b"HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\nabc", "", True),
    "a bad chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n", "abc", True),
    "a line that has no end": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000, "", True),
    "too many headers": (b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 300 + b"Content-Length: 0\r\n\r\n", "", True),
}


@pytest.mark.parametrize("split", [False, True], ids=["at once", "in pieces"])
async def test_answers_that_are_complete_keep_their_connection(http: HttpExecutor, split: bool) -> None:
    """One connection serves all of them, and no answer has anything of the one before it."""
    bodies = {f"/{number}": answer for number, answer in enumerate(REUSED.values())}
    connections: set[int] = set()

    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        connections.add(request.connection)
        data = bodies[request.path][0]
        for at in range(0, len(data), 7 if split else len(data)):
            writer.write(data[at : at + 7] if split else data)
            await writer.drain()
            await asyncio.sleep(0)

    async with listening(respond) as url:
        for name, (path, (_, text)) in zip(REUSED, bodies.items(), strict=True):
            result = kept(await http.execute(RecordedAttempt(Http(url=url.rstrip("/") + path))))
            assert (name, result["body"], result.get("truncated")) == (name, text, None)
    assert connections == {1}


@pytest.mark.parametrize("name", CLOSED)
async def test_answers_that_end_their_connection(http: HttpExecutor, name: str) -> None:
    data, text, truncated = CLOSED[name]
    connections: list[int] = []

    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        connections.append(request.connection)
        writer.write(data if request.path == "/odd" else response(b"even"))

    async with listening(respond) as url:
        result = kept(await http.execute(RecordedAttempt(Http(url=f"{url}odd"))))
        assert result["status"] == 200
        if text is not None:
            assert result.get("body", "") == text
        assert result.get("truncated") == truncated
        assert kept(await http.execute(RecordedAttempt(Http(url=url))))["body"] == "even"
    assert connections[0] == 1


@pytest.mark.parametrize("length", ["Content-Length: 9\r\n", "Transfer-Encoding: chunked\r\n", ""])
async def test_the_answer_to_a_head_request_has_no_body(http: HttpExecutor, length: str) -> None:
    connections: list[int] = []

    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        connections.append(request.connection)
        writer.write(f"HTTP/1.1 200 OK\r\n{length}\r\n".encode())

    async with listening(respond) as url:
        for _ in range(2):
            result = kept(await http.execute(RecordedAttempt(Http(url=url, method="HEAD"))))
            assert (result["body"], result.get("truncated")) == ("", None)
    assert len(connections) == 2


async def test_a_body_without_a_length_ends_with_its_connection(http: HttpExecutor) -> None:
    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nabc")
        writer.close()

    async with listening(respond) as url:
        for _ in range(2):
            result = kept(await http.execute(RecordedAttempt(Http(url=url))))
            assert (result["body"], result.get("truncated")) == ("abc", None)


async def test_not_modified_has_no_body_whatever_length_it_names(http: HttpExecutor) -> None:
    connections: set[int] = set()

    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        connections.add(request.connection)
        writer.write(b"HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Length: 9\r\n\r\n")

    async with listening(respond) as url:
        for _ in range(2):
            task = Http(url=url, method="GET", accepted_statuses=[304])
            assert kept(await http.execute(RecordedAttempt(task)))["body"] == ""
    assert connections == {1}
