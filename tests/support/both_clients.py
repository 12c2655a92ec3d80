"""Lets one test cover both clients: an `AsyncClient` that is called like a `Client`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from tests.support.stub_server import StubServer
from timeball import AsyncClient, Client
from timeball.client.http_sync import Incoming, Outgoing

BOTH = ["Client", "AsyncClient"]


class Blocking:
    """Calls an asynchronous object like a synchronous one: waits for each result."""

    def __init__(self, subject: Any, runner: asyncio.Runner) -> None:
        self._subject = subject
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._subject, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            answer = method(*args, **kwargs)
            return self._iterate(answer) if hasattr(answer, "__anext__") else self._wait(answer)

        return call

    def _iterate(self, answers: AsyncIterator[Any]) -> Iterator[Any]:
        while True:
            try:
                yield self._wait(anext(answers))
            except StopAsyncIteration:
                return

    def _wait(self, awaitable: Any) -> Any:
        async def wait() -> Any:
            return await awaitable

        assert inspect.isawaitable(awaitable), f"{awaitable!r} cannot be awaited"
        return self._runner.run(wait())


class AsyncStub:
    """A stub server behind the transport of the asynchronous client."""

    def __init__(self, server: StubServer) -> None:
        self._server = server

    async def send(self, server: str, outgoing: Outgoing, timeout: float) -> Incoming:
        return self._server.send(server, outgoing, timeout)

    async def stream(self, server: str, outgoing: Outgoing, timeout: float) -> AsyncIterator[bytes | Incoming]:
        for part in self._server.stream(server, outgoing, timeout):
            yield part

    async def close(self) -> None:
        self._server.close()


@contextmanager
def either(kind: str, *where: str, stub: StubServer | None = None) -> Iterator[Client]:
    """Yield a client of one of the two kinds, for a server or a stub."""
    if kind == "Client":
        with Client(*where, transport=stub) as client:
            yield client
        return
    with asyncio.Runner() as runner:
        subject = AsyncClient(*where, transport=AsyncStub(stub) if stub is not None else None)  # type: ignore[arg-type]
        try:
            yield cast(Client, Blocking(subject, runner))
        finally:
            runner.run(subject.aclose())


def pass_the_time(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> None:
    """Replace all sleeps of the clients: they return at once, and their lengths are added to `slept`."""

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("timeball.client.client.time.sleep", slept.append)
    monkeypatch.setattr("timeball.client.async_client.asyncio.sleep", sleep)
