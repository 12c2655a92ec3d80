"""How long one request holds the event loop of a server: the driver of the stall test and of `bench stalls`.

A ticker on the server's event loop compares two readings of the CPU time of the loop's thread, 5 ms apart: what lies
between them ran without a turn for any other request. Requests go straight to the ASGI application, in the pieces that
an HTTP server hands over, so that no work of a client is counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Self

from tests.support.api import ADMIN
from tests.support.thorough import THOROUGH
from timeball.api.asgi import Application

TICK_SECONDS: Final = 0.005
PROMISED_STALL_SECONDS: Final = 0.050
"""I28: CPU time that one request may hold the event loop for."""
MAX_STALL_SECONDS: Final = PROMISED_STALL_SECONDS if THOROUGH else 0.080
"""Beside other tests on every core the same instructions take up to 1.6 times the CPU time (32 ms alone, 52 ms so).
Alone, as with `TIMEBALL_THOROUGH` and in `bench stalls`, the promise itself is the limit."""
TRIES: Final = 5
"""Work repeats itself, noise of the machine does not: the best of these counts."""
CHUNK_BYTES: Final = 65_536
"""A body arrives in pieces of this size, and an answer is kept up to this size."""


class Stall(NamedTuple):
    """The longest stretch without a turn for others."""

    cpu: float
    """Seconds of CPU time of the event loop's thread."""
    wall: float
    """Seconds."""


class Ask(NamedTuple):
    """One request."""

    path: str
    body: bytes = b""
    query: str = ""
    key: str = ADMIN
    headers: tuple[tuple[str, str], ...] = ()
    about: str = ""
    """What is bad about it, where a route has several."""
    status: tuple[int, ...] = (200, 201, 204)
    """An answer that is expected."""
    leaves: bool = False
    """The client leaves after the first piece of the body: the answer has no end."""


class Answered(NamedTuple):
    status: int
    start: bytes
    """The first piece of the body."""
    size: int
    location: str
    """The header."""


class Ticker:
    """Measures while it is entered."""

    def __init__(self) -> None:
        self.longest = Stall(0.0, 0.0)

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._cpu, self._wall = time.thread_time(), time.perf_counter()
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._look()

    def _tick(self) -> None:
        self._look()
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)

    def _look(self) -> None:
        cpu, wall = time.thread_time(), time.perf_counter()
        self.longest = Stall(max(self.longest.cpu, cpu - self._cpu), max(self.longest.wall, wall - self._wall))
        self._cpu, self._wall = cpu, wall


async def send(app: Application, method: str, ask: Ask) -> Answered:
    """Make a request, and leave out of the answer what is long."""
    pieces = [ask.body[at : at + CHUNK_BYTES] for at in range(0, len(ask.body), CHUNK_BYTES)] or [b""]
    waiting = iter(pieces)
    left = len(pieces)
    hangs: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    status, size, start, location = 0, 0, b"", ""

    async def receive() -> dict[str, Any]:
        nonlocal left
        if not left:
            await hangs
            return {"type": "http.disconnect"}
        left -= 1
        return {"type": "http.request", "body": next(waiting), "more_body": left > 0}

    async def take(message: Any) -> None:
        nonlocal status, size, start, location
        if message["type"] == "http.response.start":
            status = message["status"]
            location = dict(message["headers"]).get(b"location", b"").decode()
        else:
            body = message.get("body", b"")
            start = start or body[:CHUNK_BYTES]
            size += len(body)
            if ask.leaves and not hangs.done():
                hangs.set_result(None)

    headers = [("authorization", f"Bearer {ask.key}"), ("content-length", str(len(ask.body))), *ask.headers]
    scope = {
        "type": "http",
        "method": method,
        "path": ask.path,
        "raw_path": ask.path.encode(),
        "query_string": ask.query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }
    try:
        await app(scope, receive, take)  # type: ignore[arg-type]
    finally:
        hangs.cancel()
    return Answered(status, start, size, location)


async def measured(
    app: Application, method: str, asks: Callable[[], Sequence[Ask]], tries: int = TRIES
) -> dict[str, Stall]:
    """The stall of each request, by what is bad about it: the best of some tries, of which the later ones are made only
    while the earlier were too long."""
    found: dict[str, Stall] = {}
    for _ in range(tries):
        for ask in asks():
            known = found.get(ask.about)
            if known is not None and known.cpu <= MAX_STALL_SECONDS:
                continue
            await asyncio.sleep(2 * TICK_SECONDS)
            with Ticker() as ticker:
                answered = await send(app, method, ask)
            assert answered.status in ask.status, (
                f"{method} {ask.path} ({ask.about}): {answered.status}, not one of {ask.status};"
                f" {answered.start[:300].decode('utf-8', 'replace')}"
            )
            stall = ticker.longest
            found[ask.about] = stall if known is None else min(known, stall)
    return found
