"""A server without free descriptors continues to listen, and does not use the CPU while it waits (I28, I29)."""

import asyncio
import errno
import os
import select
import socket
from typing import Any

import pytest

from tests.support.raw_http import Client, get, serving, until
from timeball.api.http import http_server
from timeball.api.http.connection_limits import ConnectionLimits, Connections
from timeball.api.http.http_server import Acceptor


class Listener:
    """A listening socket whose accept fails as often as it is told to."""

    def __init__(self, number: int, failures: int) -> None:
        self.readable, self.writable = os.pipe()
        self.number = number
        self.failures = failures
        self.tries = 0

    def fileno(self) -> int:
        return self.readable

    def setblocking(self, blocking: bool) -> None: ...

    def accept(self) -> tuple[Any, Any]:
        self.tries += 1
        if self.tries <= self.failures:
            raise OSError(self.number, os.strerror(self.number))
        if not select.select([self.readable], [], [], 0)[0]:
            raise BlockingIOError
        os.read(self.readable, 1)
        return socket.socket(), ("127.0.0.1", 1)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS])
async def test_a_failed_accept_is_tried_again_later(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "ACCEPT_RETRY_SECONDS", 0.05)
    listener = Listener(number, failures=3)
    accepted: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()
    connections = Connections()
    oldest = [connections.open() for _ in range(4)][:3]
    acceptor = Acceptor(listener, accepted.set_result, connections)  # type: ignore[arg-type]
    os.write(listener.writable, b"x")
    try:
        (await asyncio.wait_for(accepted, 60)).close()
    finally:
        acceptor.close()
        os.close(listener.readable)
        os.close(listener.writable)
    assert min(listener.tries, 5) == 5  # the fifth finds nothing more
    assert [peer is not None and peer.is_gone for peer in oldest] == [True] * 3, "each failure evicts a stranger"
    assert len(connections) == 1


async def test_a_crowded_server_accepts_at_a_bounded_rate() -> None:
    """Each connection costs more than a request: a turn of the loop takes 16, and the next one comes later."""
    listener = Listener(0, failures=0)
    accepted: list[socket.socket] = []
    connections = Connections(ConnectionLimits(max_strangers=1))
    connections.open()
    acceptor = Acceptor(listener, accepted.append, connections)  # type: ignore[arg-type]
    os.write(listener.writable, b"x" * 100)
    try:
        while not accepted:
            await asyncio.sleep(0)
        for _ in range(3):  # turns of the loop: the acceptor sleeps
            await asyncio.sleep(0)
        assert len(accepted) == http_server.MAX_ACCEPTS_PER_TURN
        async with asyncio.timeout(60):
            while len(accepted) < 100:
                await asyncio.sleep(0.01)
    finally:
        acceptor.close()
        for each in (*accepted,):
            each.close()
        os.close(listener.readable)
        os.close(listener.writable)


@pytest.mark.parametrize("broken", ["protocol", "certificate"])
async def test_a_connection_that_cannot_be_established_is_closed_and_gives_its_place_back(
    broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_arguments: Any) -> Any:
        raise RuntimeError("broken")

    async with serving() as house:
        with monkeypatch.context() as patched:
            if broken == "protocol":
                patched.setattr(http_server, "FastProtocol", fail)
            else:
                patched.setattr(house.server, "_tls", fail)
            for _ in range(5):
                assert await (await Client.of(house)).until_closed() == b""
            await until(lambda: len(house.server.peers) == 0)
        assert (await (await Client.of(house)).ask(get("/echo"))).status == 200
    lines = [each for each in caplog.records if each.name == "timeball.api"]
    assert (len(lines), "broken" in lines[0].getMessage()) == (1, True)


async def test_mistakes_of_clients_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """One line for each would let strangers fill the disk."""
    async with serving() as house:
        for request in (
            b"\x00\r\n\r\n",
            get("/echo", "Connection: Upgrade, close", "Upgrade: websocket"),
            get("/echo", method="CONNECT"),
            get("/echo", "Transfer-Encoding: chunked", "Connection: close") + b"no chunk\r\n",
            get("/echo", *["X: y"] * 101),
        ):
            client = await Client.of(house)
            await client.send(request)
            assert await client.until_closed()
    assert [each.getMessage() for each in caplog.records if each.levelname != "DEBUG"] == []
