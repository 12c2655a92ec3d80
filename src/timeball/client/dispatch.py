"""`ports.dispatch.Dispatch` over HTTP: how a worker on another machine reaches the servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

import aiohttp
import msgspec
from msgspec.json import Decoder

from timeball.client.errors import from_answer
from timeball.domain.errors import TimeballError, Unavailable
from timeball.domain.instant import SECOND
from timeball.ports.dispatch import Beat, Hello, Orders, Poll, Receipt, Report, SessionLost, Welcome

T = TypeVar("T")

CONNECT: Final = 2.0
"""Seconds until a server that does not even take the call counts as away."""
QUICK: Final = 2.5
"""Seconds for an answer that needs no work. Two servers can be tried before the next beat is due."""
REPORT: Final = 9.0
BEYOND_WAIT: Final = 10.0
"""Seconds that a poll's answer may take beyond the poll's own patience."""

_encode = msgspec.json.Encoder().encode
_welcome = msgspec.json.Decoder(Welcome)
_orders = msgspec.json.Decoder(Orders)
_receipt = msgspec.json.Decoder(Receipt)
_anything = msgspec.json.Decoder(msgspec.Raw)


class HttpDispatch:
    """Speaks to one server at a time, and to the next one when that is away.

    Every message may be repeated safely, so each server is tried once before a call counts as failed. A poll is the
    exception: its answer may have been lost, so it is the worker who sends the next one, under its own number.
    """

    def __init__(self, servers: Sequence[str], token: str | None) -> None:
        if not servers:
            raise ValueError("a worker needs the address of at least one server")
        self._servers = [server.rstrip("/") for server in servers]
        self._current = 0
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def hello(self, hello: Hello) -> Welcome:
        return await self._ask_any("hello", hello, _welcome, QUICK)

    async def poll(self, poll: Poll) -> Orders:
        return await self._ask("poll", poll, _orders, poll.wait / SECOND + BEYOND_WAIT)

    async def beat(self, beat: Beat) -> Orders:
        return await self._ask_any("beat", beat, _orders, QUICK)

    async def report(self, report: Report) -> Receipt:
        return await self._ask_any("report", report, _receipt, REPORT)

    async def goodbye(self, session: str) -> None:
        await self._ask_any("goodbye", {"session": session}, _anything, QUICK)

    async def _ask_any(self, call: str, message: object, decoder: Decoder[T], patience: float) -> T:
        for _ in self._servers[1:]:
            try:
                return await self._ask(call, message, decoder, patience)
            except Unavailable:
                continue
        return await self._ask(call, message, decoder, patience)

    async def _ask(self, call: str, message: object, decoder: Decoder[T], patience: float) -> T:
        """One try, at the current server. If it is away, the next call goes to the next one."""
        asked = self._current
        try:
            return await self._post(f"{self._servers[asked]}/v1/worker/{call}", _encode(message), decoder, patience)
        except (Unavailable, aiohttp.ClientError, OSError, msgspec.MsgspecError) as failure:
            if self._current == asked:
                self._current = (asked + 1) % len(self._servers)
            if isinstance(failure, Unavailable):
                raise
            said = str(failure) or type(failure).__name__
            raise Unavailable(f"no answer of Timeball's from {self._servers[asked]}: {said}") from failure

    async def _post(self, url: str, body: bytes, decoder: Decoder[T], patience: float) -> T:
        if self._http is None:
            self._http = aiohttp.ClientSession(headers=self._headers)
        limits = aiohttp.ClientTimeout(total=patience, sock_connect=CONNECT)
        async with self._http.post(url, data=body, timeout=limits, allow_redirects=False) as answer:
            content = await answer.read()
            if answer.status >= 300:
                raise _error(answer.status, answer.headers, content)
            return decoder.decode(content or b"null")


def _error(status: int, headers: Mapping[str, str], body: bytes) -> TimeballError | SessionLost:
    if status == 409 and b'"session_lost"' in body:
        return SessionLost()
    if status < 400:
        return Unavailable(f"the server's address is not the right one: it answered {status}")
    error = from_answer(status, headers, body)
    if status >= 500 and not isinstance(error, Unavailable):
        return Unavailable(str(error))
    return error
