"""Both transports on real sockets: connections are kept, closed ones are replaced, and every failure has its own
error."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar, cast

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from tests.support.both_clients import Blocking
from timeball.client import http_async
from timeball.client.http_async import AiohttpTransport
from timeball.client.http_sync import AnswerInterrupted, HttpTransport, Incoming, Outgoing, Transport, Unreachable

GET = Outgoing("GET", "/hello?x=1", {"X-Mine": "yes"}, None)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    peers: ClassVar[list[tuple[str, int]]] = []
    hangs: ClassVar[threading.Event] = threading.Event()
    left: ClassVar[threading.Event] = threading.Event()
    size = 0

    def do_POST(self) -> None:
        self.size = len(self.rfile.read(int(self.headers["Content-Length"])))
        self.do_GET()

    def do_GET(self) -> None:
        self.peers.append(self.client_address)
        if self.path.endswith("/broken"):
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"half")
            self.close_connection = True
            return
        if self.path.endswith("/hang"):
            self.hangs.wait(5)
            return  # the caller has long given up
        if self.path.endswith("/goodbye"):
            self.close_connection = True  # without saying so: as a server that restarts
        if "/stream" in self.path:
            with contextlib.suppress(ConnectionError):
                self.stream()
            return
        body = f"{self.path} {self.headers['X-Mine']}".encode()
        if self.path == "/size":
            body = str(self.size).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Theirs", "too")
        self.end_headers()
        self.wfile.write(body)

    def stream(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if self.path.endswith("/left"):
            with contextlib.suppress(ConnectionError):
                self.rfile.read(1)  # nobody says more, so this ends with the connection
            self.left.set()
            return
        for word in (b"one", b"two"):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(word), word))
            self.wfile.flush()
        if self.path.endswith("/cut"):
            self.close_connection = True
        elif self.path.endswith("/silent"):
            self.hangs.wait(5)
        else:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    Handler.peers.clear()
    Handler.hangs.clear()
    Handler.left.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        Handler.hangs.set()
        server.shutdown()
        thread.join()


@pytest.fixture(params=["http.client", "aiohttp"])
def transport(request: pytest.FixtureRequest) -> Iterator[Transport]:
    if request.param == "http.client":
        transport = HttpTransport()
        yield transport
        transport.close()
        return
    with asyncio.Runner() as runner:
        blocking = Blocking(AiohttpTransport(), runner)
        yield cast(Transport, blocking)
        blocking.close()


def asking(path: str) -> Outgoing:
    return Outgoing("GET", path, {}, None)


def test_connections_are_kept_between_requests(server: str, transport: Transport) -> None:
    answer = transport.send(server, GET, 5)
    assert answer.body == b"/hello?x=1 yes"
    assert answer.headers["x-theirs"] == "too"
    transport.send(server, GET, 5)
    assert len(set(Handler.peers)) == 1


def test_a_base_path_is_kept(server: str, transport: Transport) -> None:
    assert transport.send(f"{server}/base", GET, 5).body == b"/base/hello?x=1 yes"


def test_a_connection_that_the_server_closed_is_not_used_again(server: str, transport: Transport) -> None:
    transport.send(server, asking("/goodbye"), 5)
    threading.Event().wait(0.05)
    transport.send(server, Outgoing("POST", "/hello", {}, b"once"), 5)
    assert len(set(Handler.peers)) == 2


def test_nobody_listens(transport: Transport) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(Unreachable, match="Connection refused"):
        transport.send(f"http://127.0.0.1:{port}", GET, 5)
    with pytest.raises(Unreachable):
        transport.send("http://name.invalid", GET, 5)


def test_a_server_that_speaks_no_tls(server: str, transport: Transport) -> None:
    with pytest.raises(Unreachable, match=r"SSL|record"):
        transport.send(server.replace("http:", "https:"), GET, 5)


def test_an_answer_that_breaks_off_or_takes_too_long(server: str, transport: Transport) -> None:
    with pytest.raises(AnswerInterrupted, match="the answer is incomplete"):
        transport.send(server, asking("/broken"), 5)
    with pytest.raises(AnswerInterrupted, match="it did not answer within the timeout"):
        transport.send(server, asking("/hang"), 0.05)


def test_a_large_body_is_sent_whole(server: str, transport: Transport) -> None:
    answer = transport.send(server, Outgoing("POST", "/size", {}, bytes(3 * 1024 * 1024)), 5)
    assert answer.body == b"3145728"


def test_a_server_that_takes_nothing_is_not_written_to_for_ever(transport: Transport) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        server = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(AnswerInterrupted, match="it did not answer within the timeout"):
            transport.send(server, Outgoing("POST", "/", {}, bytes(32 * 1024 * 1024)), 0.1)


def test_a_stream_arrives_as_it_is_written(server: str, transport: Transport) -> None:
    head, *chunks = transport.stream(server, asking("/stream"), 5)
    assert isinstance(head, Incoming)
    assert head.status == 200
    assert b"".join(chunk for chunk in chunks if isinstance(chunk, bytes)) == b"onetwo"


@pytest.mark.parametrize(
    ("path", "reason"),
    [("/stream/cut", "the answer is incomplete"), ("/stream/silent", "it did not answer within the timeout")],
)
def test_a_stream_that_breaks_off_or_falls_silent_says_so(
    server: str, transport: Transport, path: str, reason: str
) -> None:
    heard: list[bytes | Incoming] = []
    with pytest.raises(AnswerInterrupted, match=reason):
        heard.extend(transport.stream(server, asking(path), 0.2))
    assert b"onetwo".startswith(b"".join(part for part in heard if isinstance(part, bytes)))


def test_a_stream_that_is_left_is_hung_up(server: str) -> None:
    parts = HttpTransport().stream(server, asking("/stream/left"), 5)
    assert isinstance(next(parts), Incoming)
    del parts
    assert Handler.left.wait(5)


def test_threads_may_share_it(server: str) -> None:
    transport = HttpTransport()
    wrong: list[bytes] = []

    def ask(number: int) -> None:
        for _ in range(20):
            body = transport.send(server, asking(f"/{number}"), 5).body
            if body != f"/{number} None".encode():
                wrong.append(body)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    transport.close()
    assert not wrong


@pytest.fixture
async def tasks_transport(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AiohttpTransport]:
    monkeypatch.setattr(http_async, "AT_ONCE", 4)
    transport = AiohttpTransport()
    yield transport
    await transport.close()


async def test_tasks_may_share_it_and_wait_for_their_turns(server: str, tasks_transport: AiohttpTransport) -> None:
    async def ask(number: int) -> bytes:
        return (await tasks_transport.send(server, asking(f"/{number}"), 5)).body

    bodies = await asyncio.gather(*(ask(number) for number in range(40)))
    assert bodies == [f"/{number} None".encode() for number in range(40)]
    assert len(set(Handler.peers)) <= 4


async def test_streams_take_no_turns(server: str, tasks_transport: AiohttpTransport) -> None:
    streams = [tasks_transport.stream(server, asking("/stream"), 5) for _ in range(6)]
    for stream in streams:
        await anext(stream)
    assert (await tasks_transport.send(server, GET, 5)).body == b"/hello?x=1 yes"
    for stream in streams:
        assert [part async for part in stream] != []


async def test_a_stream_that_a_task_leaves_is_hung_up(server: str, tasks_transport: AiohttpTransport) -> None:
    parts = tasks_transport.stream(server, asking("/stream/left"), 5)
    assert isinstance(await anext(parts), Incoming)
    await parts.aclose()
    assert await asyncio.to_thread(Handler.left.wait, 5)


async def test_a_server_that_nobody_vouches_for_is_not_reached(
    server: str, tasks_transport: AiohttpTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        refused = ssl.SSLCertVerificationError(1, "certificate verify failed: self-signed certificate")
        raise aiohttp.ClientConnectorCertificateError(ConnectionKey("h", 443, True, True, None, None, None), refused)

    monkeypatch.setattr(aiohttp.ClientSession, "_request", refuse)
    with pytest.raises(Unreachable, match="certificate verify failed: self-signed certificate"):
        await tasks_transport.send(server, GET, 5)


async def test_a_closed_one_is_not_used_again(server: str, tasks_transport: AiohttpTransport) -> None:
    await tasks_transport.send(server, GET, 5)
    await tasks_transport.close()
    with pytest.raises(RuntimeError, match="this client is closed"):
        await tasks_transport.send(server, GET, 5)


async def test_a_connection_that_was_closed_while_the_loop_was_busy_is_not_used_again(
    server: str, tasks_transport: AiohttpTransport
) -> None:
    await tasks_transport.send(server, asking("/goodbye"), 5)
    threading.Event().wait(0.05)
    await tasks_transport.send(server, Outgoing("POST", "/hello", {}, b"once"), 5)
    assert len(set(Handler.peers)) == 2
