"""An answer is sent in one write; a long answer is sent piece by piece as it is produced."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from timeball.api.asgi import Receive, Scope, Send
from timeball.api.http.buffered_protocol import BufferedProtocol
from timeball.api.responses import send_answer
from timeball.api.routing import Answer


class Wire(asyncio.Transport):
    """What was written, in pieces."""

    def __init__(self) -> None:
        super().__init__({"sockname": ("127.0.0.1", 1300), "peername": ("127.0.0.1", 50_000)})
        self.pieces: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.pieces.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


def connect(answer: Answer | Exception) -> tuple[BufferedProtocol, Wire]:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if isinstance(answer, Exception):
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
            raise answer
        await send_answer(answer, receive, send, with_body=scope["method"] != "HEAD")

    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none")
    config.load()
    protocol = BufferedProtocol(config, ServerState(), {}, _loop=asyncio.get_running_loop())
    wire = Wire()
    protocol.connection_made(wire)
    return protocol, wire


async def exchange(answer: Answer | Exception, request: bytes) -> Wire:
    protocol, wire = connect(answer)
    protocol.data_received(request)
    while protocol.tasks:
        await asyncio.gather(*protocol.tasks, return_exceptions=True)
    protocol._unset_keepalive_if_required()
    return wire


GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
HEAD = b"HEAD / HTTP/1.1\r\nhost: x\r\n\r\n"
CLOSING = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
HELLO = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"


@pytest.mark.parametrize("request_", [GET, CLOSING])
@pytest.mark.parametrize("body", [b"", b"hello", HELLO, HELLO * 100_000])
async def test_an_answer_is_one_write(request_: bytes, body: bytes) -> None:
    wire = await exchange(Answer(body), request_)
    [whole] = wire.pieces
    head, _, rest = whole.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\ncontent-length: %d" % len(body) in head
    assert rest == body
    assert wire.closed is (request_ == CLOSING)


async def test_an_answer_without_a_body_is_not_held_back() -> None:
    for answer, request in ((Answer(b"hello"), HEAD), (Answer(status=204), GET)):
        wire = await exchange(answer, request)
        assert b"".join(wire.pieces).endswith(b"\r\n\r\n")


async def test_one_answer_after_the_other() -> None:
    wire = await exchange(Answer(HELLO), GET + HEAD + GET)
    assert [len(piece.split(b"\r\n\r\n", 1)[1]) for piece in wire.pieces] == [len(HELLO), 0, len(HELLO)]


async def test_the_head_of_an_answer_that_lasts_does_not_wait_for_it() -> None:
    goes_on = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        await goes_on.wait()
        yield HELLO
        yield HELLO

    protocol, wire = connect(Answer(body()))
    protocol.data_received(GET)
    for _ in range(10):
        await asyncio.sleep(0)
    assert b"".join(wire.pieces).endswith(b"transfer-encoding: chunked\r\n\r\n")
    before = len(wire.pieces)
    goes_on.set()
    await asyncio.gather(*protocol.tasks)
    protocol._unset_keepalive_if_required()
    assert [piece.split(b"\r\n", 1)[1] for piece in wire.pieces[before:-1]] == [HELLO + b"\r\n"] * 2


async def test_a_failure_between_head_and_body_leaves_nothing_behind() -> None:
    wire = await exchange(RuntimeError("boom"), GET)
    assert wire.closed
    assert b"".join(wire.pieces).startswith(b"HTTP/1.1 200 OK\r\n")


async def test_bytes_that_are_no_request_are_refused_in_one_write() -> None:
    wire = await exchange(Answer(b"hello"), b"\x00\x01\r\n\r\n")
    assert len(wire.pieces) == 1
    assert wire.pieces[0].startswith(b"HTTP/1.1 400 ")
    assert wire.closed
