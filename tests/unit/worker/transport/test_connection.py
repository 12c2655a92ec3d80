"""The HTTP connection of a worker, with servers that answer in every allowed way, or not at all."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from timeball.client.http_sync import Incoming
from timeball.worker.transport.connection import Wire

pytestmark = pytest.mark.timeout(300)

Script = Callable[[int, int, bytes], Awaitable[bytes]]
"""The bytes to send for a request, given the number of its connection, its own number there and its body."""
HANG_UP = b"<hang up>"
"""At the end of those bytes: and then close the connection."""


@asynccontextmanager
async def serving(script: Script) -> AsyncIterator[Wire]:
    talks: list[asyncio.Task[None]] = []

    async def talk(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for request in itertools.count(1):
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
                answer = await script(number, request, await reader.readexactly(length))
                writer.write(answer.removesuffix(HANG_UP))
                if answer.endswith(HANG_UP):
                    break
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talks.append(asyncio.ensure_future(talk(len(talks) + 1, reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    wire = Wire(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/base/", {"Authorization": "Bearer key"})
    try:
        yield wire
    finally:
        wire.close()
        server.close()
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        await asyncio.sleep(0.01)


def ok(body: bytes, *headers: str) -> bytes:
    lines = "".join(f"{line}\r\n" for line in ("HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers))
    return lines.encode() + b"\r\n" + body


async def test_requests_one_after_the_other_share_a_connection_and_those_at_once_do_not() -> None:
    together = asyncio.Barrier(3)

    async def script(connection: int, request: int, body: bytes) -> bytes:
        if body == b"together":
            await together.wait()
        return ok(b"%d.%d" % (connection, request))

    async with serving(script) as wire:
        assert [(await wire.post("/x", b"alone")).body for _ in range(3)] == [b"1.1", b"1.2", b"1.3"]
        answers = await asyncio.gather(*(wire.post("/x", b"together") for _ in range(3)))
        assert sorted(answer.body for answer in answers) == [b"1.4", b"2.1", b"3.1"]


async def test_what_goes_out_and_what_comes_back() -> None:
    heard = ""

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        heard = (await reader.readuntil(b"}")).decode()
        writer.write(ok(b"{}", "X-Seen: yes"))
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    wire = Wire(f"http://{address}/base/", {"Authorization": "Bearer key"})
    answer = await wire.post("/v1/worker/beat", b'{"a":1}')
    wire.close()
    server.close()
    await asyncio.sleep(0.01)
    assert answer == Incoming(200, {"content-length": "2", "x-seen": "yes"}, b"{}")
    assert heard.split("\r\n") == [
        "POST /base/v1/worker/beat HTTP/1.1",
        f"Host: {address}",
        "Authorization: Bearer key",
        "Content-Length: 7",
        "",
        '{"a":1}',
    ]


async def test_a_connection_that_was_closed_while_it_was_idle_is_replaced() -> None:
    async def script(connection: int, request: int, body: bytes) -> bytes:
        return HANG_UP if (connection, request) == (1, 2) else ok(b"%d.%d" % (connection, request))

    async with serving(script) as wire:
        assert (await wire.post("/x", b"")).body == b"1.1"
        assert (await wire.post("/x", b"")).body == b"2.1"


async def test_a_server_that_hangs_up_on_a_new_connection_is_away() -> None:
    asked = 0

    async def script(connection: int, request: int, body: bytes) -> bytes:
        nonlocal asked
        asked += 1
        return HANG_UP

    async with serving(script) as wire:
        with pytest.raises(ConnectionError):
            await wire.post("/x", b"")
        assert asked == 1


async def test_an_answer_that_breaks_off_is_none_and_is_not_asked_for_again() -> None:
    asked = 0

    async def script(connection: int, request: int, body: bytes) -> bytes:
        nonlocal asked
        asked += 1
        return ok(b"whole") if asked == 1 else ok(b"whole")[:-2] + HANG_UP

    async with serving(script) as wire:
        assert (await wire.post("/x", b"")).body == b"whole"
        with pytest.raises(ConnectionError, match="incomplete"):
            await wire.post("/x", b"")
        assert asked == 2


async def test_whoever_gives_up_leaves_no_answer_to_others() -> None:
    gave_up = asyncio.Event()

    async def script(connection: int, request: int, body: bytes) -> bytes:
        if body == b"slow":
            await gave_up.wait()
        return ok(body)

    async with serving(script) as wire:
        await wire.post("/x", b"first")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await wire.post("/x", b"slow")
        gave_up.set()
        assert (await wire.post("/x", b"next")).body == b"next"


async def test_a_connection_that_the_server_wants_to_close_is_not_used_again() -> None:
    async def script(connection: int, request: int, body: bytes) -> bytes:
        return ok(b"%d.%d" % (connection, request), "Connection: close")

    async with serving(script) as wire:
        assert [(await wire.post("/x", b"")).body for _ in range(2)] == [b"1.1", b"2.1"]


async def test_answers_may_come_in_chunks_and_after_others() -> None:
    async def script(connection: int, request: int, body: bytes) -> bytes:
        return (
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
            b"HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        )

    async with serving(script) as wire:
        for _ in range(2):
            answer = await wire.post("/x", b"")
            assert (answer.status, answer.body) == (409, b"abcde")
            assert "link" not in answer.headers


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH_9.2\r\n", ok(b"one") + ok(b"two, which nobody asked for")])
async def test_a_server_that_talks_nonsense_is_not_asked_again_on_that_connection(answer: bytes) -> None:
    async def script(connection: int, request: int, body: bytes) -> bytes:
        return answer if connection == 1 else ok(b"fine")

    async with serving(script) as wire:
        if answer.startswith(b"SSH"):
            with pytest.raises(ConnectionError, match="did not answer with HTTP"):
                await wire.post("/x", b"")
        else:
            assert (await wire.post("/x", b"")).body == b"one"
        assert (await wire.post("/x", b"")).body == b"fine"


def test_a_key_with_a_line_break_is_refused() -> None:
    with pytest.raises(ValueError, match="line break"):
        Wire("http://127.0.0.1:1", {"Authorization": "Bearer a\r\nX-Evil: 1"})
