"""One call: its requests, over redirects, until the last answer.

It is a chain of callbacks. On an idle connection it needs no asyncio task; only to open a connection does it start one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from timeball.domain.task.task import Http
from timeball.executors.http import request as requests
from timeball.executors.http.connection import HttpConnection, HttpConnections
from timeball.executors.http.dialing import Egress
from timeball.executors.http.request import REDIRECT_STATUSES, HttpRequest, RedirectRefused
from timeball.executors.http.response import HttpResponse
from timeball.ports.executor import ExecutorAttempt

MAX_REDIRECTS: Final = 5

Ended = Callable[["HttpCall", HttpResponse | Exception], None]


class HttpCall:
    """The call of one attempt. `ended` gets the last answer, or the error because of which there is none."""

    __slots__ = ("_connecting", "_connection", "_egress", "_ended", "_pool", "_request", "attempt", "hops", "task")

    def __init__(
        self,
        pool: HttpConnections,
        egress: Egress,
        attempt: ExecutorAttempt,
        task: Http,
        request: HttpRequest,
        ended: Ended,
    ) -> None:
        self.attempt = attempt
        self.task = task
        self._pool = pool
        self._egress = egress
        self._request = request
        self._ended: Ended | None = ended
        self._connection: HttpConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self.hops = 0
        """Number of redirects so far. A target has acted on a request if it is not 0."""

    @property
    def host(self) -> str:
        return self._request.origin[1]

    def begin(self) -> None:
        """Send the first request, unless the call was stopped."""
        if self._ended is not None:
            self._ask()

    def _ask(self) -> None:
        connection = self._pool.take(self._egress, self._request.origin)
        if connection is not None:
            self._send(connection)
        else:
            self._connecting = asyncio.get_running_loop().create_task(self._connect(), name="timeball connect")

    def stop(self) -> None:
        """End the call, whatever has arrived of its answer. Without effect if it has ended."""
        self._drop()
        self._end(ConnectionError("the call was stopped"))

    def time_is_over(self) -> None:
        """End the call with what has arrived of its answer."""
        answer = None if self._connection is None else self._connection.give_up()
        self._drop()
        self._end(answer or TimeoutError("no answer in time"))

    def _drop(self) -> None:
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def _connect(self) -> None:
        try:
            self._send(await self._pool.connect(self._egress, self._request.origin))
        except Exception as error:
            self._end(error)
        finally:
            self._connecting = None

    def _send(self, connection: HttpConnection) -> None:
        self._connection = connection
        connection.ask(self._request.method, requests.rendered(self._request, self.attempt), self._answered)

    def _answered(self, answer: HttpResponse | Exception) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.put(connection)
        if isinstance(answer, HttpResponse) and answer.status in REDIRECT_STATUSES and self._follows_redirects:
            location = answer.headers.get("Location")
            if location is not None:
                self._redirect(answer.status, location)
                return
        self._end(answer)

    @property
    def _follows_redirects(self) -> bool:
        """False if the job accepts the answer that redirects."""
        return not any(300 <= status < 400 for status in self.task.accepted_statuses)

    def _redirect(self, status: int, location: str) -> None:
        try:
            if self.hops == MAX_REDIRECTS:
                raise RedirectRefused(f"the target redirected more than {MAX_REDIRECTS} times")
            self._request = requests.redirected(self._request, status, location)
        except (RedirectRefused, ValueError) as error:
            self._end(error)
            return
        self.hops += 1
        self._ask()

    def _end(self, result: HttpResponse | Exception) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(self, result)
