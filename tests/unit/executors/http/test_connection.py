"""Connections of HTTP jobs: how they are opened, checked, kept and ended."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.certificates import Authority
from tests.support.raw_target import RawRequest, listening, response
from tests.unit.executing import RecordedAttempt
from timeball.domain.run.lifecycle import Failed, Failure, Outcome, Succeeded
from timeball.domain.task.task import Http
from timeball.executors.http import connection as connection_module
from timeball.executors.http import executor as executor_module
from timeball.executors.http.executor import HttpExecutor
from timeball.lookups import Lookups, ResolvedAddress

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
TIMEOUT = 20.0


@pytest.fixture
async def http() -> AsyncIterator[HttpExecutor]:
    executor = HttpExecutor()
    yield executor
    await executor.close()


def body(outcome: Outcome) -> str:
    assert isinstance(outcome, Succeeded), outcome
    assert isinstance(outcome.result, msgspec.Raw)
    text: str = msgspec.json.decode(outcome.result)["body"]
    return text


def failure(outcome: Outcome) -> Failure:
    assert isinstance(outcome, Failed), outcome
    return outcome.failure


async def call(http: HttpExecutor, url: str, **fields: Any) -> Outcome:
    return await asyncio.wait_for(http.execute(RecordedAttempt(Http(url=url, **fields))), TIMEOUT)


@asynccontextmanager
async def target(serve: Serve, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    tasks: set[asyncio.Task[None] | None] = set()

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        try:
            await serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(served, host, 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            assert task is not None
            task.cancel()
            await asyncio.wait([task])


async def test_a_target_that_closes_before_the_request_fails_the_attempt(http: HttpExecutor) -> None:
    """The end of the connection can arrive before the request is written."""

    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with target(close) as port:
        for _ in range(30):
            assert failure(await call(http, f"http://127.0.0.1:{port}/")).kind == "http"


async def test_a_target_that_speaks_first_fails_the_attempt(http: HttpExecutor) -> None:
    """A server of mail or of remote logins greets before it reads. What it says is not the answer."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        await reader.read()

    async with target(greet) as port:
        for _ in range(30):
            assert failure(await call(http, f"http://127.0.0.1:{port}/")).kind == "http"


@pytest.mark.parametrize("early", ["end", "greeting"])
async def test_what_arrives_before_the_request_is_written_ends_the_call(http: HttpExecutor, early: str) -> None:
    """The loop reads what has arrived before the call continues: this is the order in which a call must not hang."""
    pool = http._pool
    opened = pool.connect

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if early == "end":
            writer.close()
        else:
            writer.write(response(b"forged"))
            await reader.read()

    async def connect(*target: Any) -> Any:
        connection = await opened(*target)
        while not connection.closed:
            await asyncio.sleep(0.01)
        return connection

    pool.connect = connect  # type: ignore[method-assign]
    async with target(serve) as port:
        assert "before the request" in failure(await call(http, f"http://127.0.0.1:{port}/")).message


async def test_a_connection_is_not_used_at_the_end_of_the_time_that_its_target_names(http: HttpExecutor) -> None:
    """A request that crosses the end of its connection costs an attempt, so a connection is given up before that."""
    connections: list[int] = []

    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        connections.append(request.connection)
        writer.write(response(b"", headers=(f"Keep-Alive: timeout={request.path[1:]}, max=100",)))

    async with listening(respond) as url:
        for seconds in ("1", "1", "60", "60"):
            body(await call(http, f"{url}{seconds}"))
    assert connections == [1, 2, 3, 3]


async def test_calls_to_many_targets_keep_a_bounded_number_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """I28: those that were used last are kept, and a call to each of them uses its connection again."""
    monkeypatch.setattr(connection_module, "MAX_IDLE", 10)
    opened: list[str] = []
    is_open: set[str] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = ""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                name = head.partition(b"Host: ")[2].partition(b"\r\n")[0].decode()
                assert host in ("", name)
                if not host:
                    host = name
                    opened.append(host)
                    is_open.add(host)
                writer.write(response(b""))
        finally:
            is_open.discard(host)

    http = HttpExecutor(EverythingIsHere())
    async with target(serve) as port:
        hosts = [f"t{number}.example:{port}" for number in range(30)]
        for host in (hosts[0], *hosts, *hosts[:20], *hosts[10:20]):
            body(await call(http, f"http://{host}/", method="GET"))
            assert len(http._pool._by_age) == sum(map(len, http._pool._idle.values())) <= 10
        assert opened == [*hosts, *hosts[:20]]
        while len(is_open) > 10:
            await asyncio.sleep(0.01)
        assert is_open == set(hosts[10:20])
        http._pool._close_old()
        assert len(http._pool._by_age) == 10
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: float("inf"))
        http._pool._close_old()
        assert not http._pool._by_age
        assert not http._pool._idle
        monkeypatch.undo()
        while is_open:
            await asyncio.sleep(0.01)
    await http.close()


@pytest.mark.parametrize("stage", ["lookup", "connect", "head", "body", "redirect"])
async def test_a_call_ends_when_it_is_stopped_at_any_point(stage: str, http: HttpExecutor) -> None:
    reached = asyncio.Event()
    gone = asyncio.Event()

    class SlowLookups(Lookups):
        async def addresses(self, host: str, family: int = socket.AF_UNSPEC) -> list[ResolvedAddress]:
            if stage == "lookup":
                reached.set()
                await asyncio.Event().wait()
            return await super().addresses(host, family)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if stage == "redirect":
            writer.write(b"HTTP/1.1 307 x\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
        elif stage == "body":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
            await writer.drain()
            await asyncio.sleep(0.05)
        reached.set()
        await reader.read()
        gone.set()

    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    async with target(serve) as port:
        if stage == "connect":
            waiting = [socket.socket() for _ in range(4)]
            for each in waiting:
                each.setblocking(False)
                each.connect_ex(full.getsockname())
            port = full.getsockname()[1]
            asyncio.get_running_loop().call_later(0.2, reached.set)
        executor = HttpExecutor(SlowLookups())
        attempt = RecordedAttempt(Http(url=f"http://127.0.0.1:{port}/", method="GET"))
        ended: list[Any] = []
        executor.start(attempt, lambda _, result: ended.append(result))
        await asyncio.wait_for(reached.wait(), TIMEOUT)
        assert not ended
        attempt.cancel()
        attempt.cancel(force=True)
        assert len(ended) == 1
        assert isinstance(ended[0], Failed)
        if stage in ("head", "body", "redirect"):
            await asyncio.wait_for(gone.wait(), TIMEOUT)
        await executor.close()
        if stage == "connect":
            for each in waiting:
                each.close()
    full.close()


async def test_the_default_timeout_ends_each_call_in_its_turn(
    http: HttpExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A status that has arrived decides, however long the body takes."""
    monkeypatch.setattr(executor_module, "DEFAULT_TIMEOUT", 0.2)

    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        if request.path == "/body":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
        await writer.drain()
        await asyncio.Event().wait()

    async with listening(respond) as url:
        calls = [call(http, url), call(http, f"{url}body"), call(http, url)]
        silent, begun, other = await asyncio.gather(*calls)
        later = await call(http, url)
    assert body(begun) == "abc"
    assert all("no answer in time" in failure(each).message for each in (silent, other, later))


# --- TLS and names --------------------------------------------------------------------------------------------------


class TlsTarget:
    """Answers with the name that the client asked for (SNI)."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        cert, key = folder / "cert.pem", folder / "key.pem"
        self.authority.issue(cert, key, "localhost")
        self.names: list[str | None] = []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(cert, key)
        self.context.sni_callback = self._named

    def _named(self, _: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> None:
        self.names.append(name)

    @property
    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority.file))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(response(head.partition(b"Host: ")[2].partition(b"\r\n")[0]))


class EverythingIsHere(Lookups):
    async def addresses(self, host: str, family: int = socket.AF_UNSPEC) -> list[ResolvedAddress]:
        return [ResolvedAddress(socket.AF_INET, socket.IPPROTO_TCP, "127.0.0.1")]


async def test_a_certificate_is_checked_for_the_name_in_the_url(tmp_path: Path) -> None:
    tls = TlsTarget(tmp_path)
    trusting, doubting = HttpExecutor(EverythingIsHere(), tls.trust), HttpExecutor(EverythingIsHere())
    async with target(tls.serve, tls=tls.context) as port:
        for _ in range(2):
            assert body(await call(trusting, f"https://localhost:{port}/", method="GET")) == f"localhost:{port}"
        assert tls.names == ["localhost"]  # the second call used the connection again
        assert body(await call(trusting, f"https://localhost.:{port}/", method="GET")) == f"localhost:{port}"
        assert tls.names[1:] == ["localhost"]
        assert body(await call(trusting, f"https://127.0.0.1:{port}/", method="GET")) == f"127.0.0.1:{port}"
        assert tls.names[2:] == [None]
        for executor, host in ((trusting, "other.example"), (doubting, "localhost"), (trusting, "127.0.0.2")):
            refused = failure(await call(executor, f"https://{host}:{port}/", method="GET"))
            assert "certificate" in refused.message.lower(), refused
            assert refused.status is None
        # a Host header of the job changes what is asked of the target, and not which certificate it must have
        other = await call(trusting, f"https://localhost:{port}/", method="GET", headers={"Host": "other.example"})
        assert body(other) == "other.example"
    await trusting.close()
    await doubting.close()


async def test_a_target_without_tls_fails_the_attempt(http: HttpExecutor) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(response(b"plain"))
        await writer.drain()

    async with target(serve) as port:
        refused = failure(await call(http, f"https://127.0.0.1:{port}/"))
    assert (refused.status, "SSL" in refused.message) == (None, True), refused


async def test_names_in_urls() -> None:
    """A host in other letters is sent in its ASCII form, and the user of a URL only as a header."""
    seen: list[tuple[str, str | None]] = []

    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        seen.append((request.headers["host"], request.headers.get("authorization")))
        writer.write(response(request.path.encode()))

    http = HttpExecutor(EverythingIsHere())
    async with listening(respond) as url:
        port = url.rstrip("/").rpartition(":")[2]
        assert body(await call(http, f"http://bücher.example:{port}/ü%20x?y=ö#f")) == "/%C3%BC%20x?y=%C3%B6"
        assert body(await call(http, f"http://us%40er:p%3Ass@EXAMPLE.com:{port}/")) == "/"
        assert body(await call(http, f"http://ü:€@example.com:{port}?q")) == "/?q"
    await http.close()
    assert seen == [
        (f"xn--bcher-kva.example:{port}", None),
        (f"example.com:{port}", "Basic dXNAZXI6cDpzcw=="),
        (f"example.com:{port}", "Basic w7w64oKs"),
    ]


@pytest.mark.parametrize("host", ["us:pw@ü..example", "us:pw@a\\b", "us:pw@\u200d", "us:pw@" + "a" * 64 + ".example"])
async def test_a_host_that_cannot_be_called_fails_the_attempt(http: HttpExecutor, host: str) -> None:
    refused = failure(await call(http, f"http://{host}/x"))
    assert (refused.kind, "pw" in refused.message) == ("http", False)


async def test_an_ipv6_literal(http: HttpExecutor) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(response(head.partition(b"Host: ")[2].partition(b"\r\n")[0]))

    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    async with target(serve, "::1") as port:
        assert body(await call(http, f"http://[::1]:{port}/", method="GET")) == f"[::1]:{port}"
