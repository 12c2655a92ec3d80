"""`ports.worker_protocol.WorkerProtocol` over HTTP, for workers on other machines than the servers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

import msgspec
from msgspec.json import Decoder

from timeball.client.errors import from_answer
from timeball.client.http_sync import Incoming, reason
from timeball.domain.errors import TimeballError, TooLarge, Unavailable
from timeball.domain.instant import SECOND
from timeball.ports.worker_protocol import (
    MAX_MESSAGE_BYTES,
    Beat,
    Poll,
    PollResponse,
    RegisterWorker,
    Report,
    ReportAck,
    ServerFault,
    SessionLost,
    WorkerRegistered,
)
from timeball.worker.transport.connection import Wire

T = TypeVar("T")

QUICK: Final = 2.5
"""Seconds for the answer to any message except a poll or a report. They allow for two servers to be tried before the
next beat is due."""
REPORT: Final = 9.0
BEYOND_WAIT: Final = 3.0
"""Seconds that the answer to a poll may take beyond the wait that the poll asks for. Runs that were claimed for a lost
answer are released with the next poll, which has to be sent before the lease lapses.
"""

log = logging.getLogger("timeball.worker")

_encode = msgspec.json.Encoder().encode
_registered = msgspec.json.Decoder(WorkerRegistered)
_orders = msgspec.json.Decoder(PollResponse)
_ack = msgspec.json.Decoder(ReportAck)
_anything = msgspec.json.Decoder(msgspec.Raw)


HOME_AGAIN: Final = 10.0
"""Seconds after which a worker that had to leave its home server checks whether that server is back."""


class HttpWorkerProtocol:
    """Sends the messages of a worker to one server at a time, and to the next one when that server is unreachable.

    Every message except a poll may be repeated safely, so each server is tried once before a call counts as failed. The
    answer to a poll may have been lost, so the worker sends a new poll with the next number instead.

    Each worker starts with a random server, its `home`, and returns to it once a beat has reached it again. So the
    workers stay spread over the servers, also after each server was restarted. A worker moves only with a poll, never
    during a pending one: reports tell the server of the pending poll how many slots are free. So when a server leaves
    any call unanswered, the poll that is pending there is cancelled, because its connection may be dead without notice.
    """

    def __init__(self, servers: Sequence[str], token: str | None, *, home: int = 0, ca: Path | None = None) -> None:
        if not servers:
            raise ValueError("a worker needs the URL of at least one server")
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._servers = [server.rstrip("/") for server in servers]
        self._connections = [Wire(server, headers, ca) for server in self._servers]
        self._home = self._current = home % len(self._servers)
        self._answered_last: int | None = None
        self._left_home_at = 0.0
        self._home_is_back = False
        self._pending_poll: tuple[int, asyncio.Timeout] | None = None
        """The server where a poll is pending, and the timeout of that poll."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        for wire in self._connections:
            wire.close()
        await asyncio.sleep(0)  # the event loop closes the connections in its next turn

    async def hello(self, hello: RegisterWorker) -> WorkerRegistered:
        return await self._ask_any("hello", hello, _registered, QUICK)

    async def poll(self, poll: Poll) -> PollResponse:
        if self._home_is_back:
            self._current, self._home_is_back = self._home, False
        return await self._ask("poll", poll, _orders, poll.wait / SECOND + BEYOND_WAIT)

    async def beat(self, beat: Beat) -> PollResponse:
        if self._current != self._home and self._now() - self._left_home_at >= HOME_AGAIN:
            try:
                orders = await self._ask("beat", beat, _orders, QUICK, at=self._home)
            except Unavailable:
                self._left_home_at = self._now()
            else:
                self._home_is_back = True
                return orders
        return await self._ask_any("beat", beat, _orders, QUICK)

    async def report(self, report: Report) -> ReportAck:
        return await self._ask_any("report", report, _ack, REPORT)

    async def goodbye(self, session: str) -> None:
        await self._ask_any("goodbye", {"session": session}, _anything, QUICK)

    async def _ask_any(self, call: str, message: object, decoder: Decoder[T], timeout: float) -> T:
        for _ in self._servers[1:]:
            try:
                return await self._ask(call, message, decoder, timeout)
            except Unavailable:
                continue
        return await self._ask(call, message, decoder, timeout)

    async def _ask(
        self, call: str, message: object, decoder: Decoder[T], timeout: float, *, at: int | None = None
    ) -> T:
        """Send one request to the current server, or to the server with the index `at`, and return its decoded answer.
        If there is no valid answer, raise `Unavailable`, and if that server is still the current one, the next server
        becomes it."""
        asked = self._current if at is None else at
        try:
            async with asyncio.timeout(timeout) as limit:
                if call == "poll":
                    self._pending_poll = (asked, limit)
                try:
                    answer = await self._connections[asked].post(f"/v1/worker/{call}", _encoded(message))
                finally:
                    if call == "poll":
                        self._pending_poll = None
            if answer.status >= 300:
                raise _error(answer)
            decoded = decoder.decode(answer.body or b"null")
            if asked != self._answered_last and asked == self._current:
                self._log_move(asked)
            return decoded
        except (Unavailable, OSError, msgspec.MsgspecError) as failure:
            if self._current == asked:
                self._current = (asked + 1) % len(self._servers)
                if asked == self._home:
                    self._left_home_at = self._now()
            if self._pending_poll is not None and self._pending_poll[0] == asked:
                self._pending_poll[1].reschedule(self._now())
            if isinstance(failure, Unavailable):
                raise
            raise Unavailable(f"no valid answer from {self._servers[asked]}: {reason(failure)}") from failure

    def _log_move(self, server: int) -> None:
        if self._answered_last is not None:
            back = ", its first server, again" if server == self._home else ""
            log.warning(
                "the worker now uses the server %s%s; before: %s",
                self._servers[server],
                back,
                self._servers[self._answered_last],
            )
        self._answered_last = server

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _encoded(message: object) -> bytes:
    """Encode a message. Raises `TooLarge` for one that every server would refuse; a report can then be
    sent in parts.
    """
    encoded = _encode(message)
    if len(encoded) > MAX_MESSAGE_BYTES:
        raise TooLarge(f"a message of {len(encoded):,} bytes is larger than {MAX_MESSAGE_BYTES >> 20} MiB")
    return encoded


def _error(answer: Incoming) -> TimeballError | SessionLost:
    status = answer.status
    if status == 409 and b'"session_lost"' in answer.body:
        return SessionLost()
    if status < 400:
        return Unavailable(f"the server's URL is wrong: it answered with status {status}")
    error = from_answer(status, answer.headers, answer.body)
    if status == 500:
        return ServerFault(str(error))
    if status >= 500 and not isinstance(error, Unavailable):
        return Unavailable(str(error))
    return error
