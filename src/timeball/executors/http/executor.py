"""The executor of HTTP tasks.

Its calls are chains of callbacks (`http.call`): none needs a lane of the worker, and all share one timer for the
default timeout.

It follows redirects itself, because what may be sent depends on the redirect target. To the same origin (scheme, host,
port) everything is sent. To another origin, headers that look like credentials and the user in the URL are not sent.
After a 301, 302 or 303, all methods except GET and HEAD become a GET without a body. A 307 or 308 keeps the method and
the body, and a body is sent only to an origin that the job names; otherwise the attempt fails and its message has the
redirect target. The one exception is the same host, from http to https on their default ports: that host already got
the body, and now gets it encrypted.

The status of an answer decides the outcome as soon as it has arrived, even if the rest of the answer cannot be read
(see `http.response`). Only the timeout of the job, or a cancel, gives another outcome to a call whose body is still
being received.

A connection is opened only to an address that the tenant of the job may use (see `http.dialing`), again after each
redirect. A refused address fails the attempt, and no retry follows.

A request is sent once. If its connection breaks, the target may have acted on it: the attempt has failed, and the retry
policy decides about another.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

from yarl import URL

from timeball.domain.instant import SECOND, Micros
from timeball.domain.run.lifecycle import INVALID, Failed, Failure, Outcome, Succeeded
from timeball.domain.task.task import Http, Task
from timeball.executors import results
from timeball.executors.http import request as requests
from timeball.executors.http import response
from timeball.executors.http.call import HttpCall
from timeball.executors.http.connection import CannotConnect, HttpConnections
from timeball.executors.http.dialing import AddressRefused
from timeball.executors.http.egresses import Egresses
from timeball.executors.http.request import HttpRequest, RedirectRefused
from timeball.executors.http.response import HttpResponse
from timeball.lookups import Lookups, NotLookedUp
from timeball.ports.executor import ExecutorAttempt, OutOfResources, TryLater
from timeball.resource_shortage import is_shortage

DEFAULT_TIMEOUT: Final = 300.0
"""Seconds for the whole call if the job has no timeout."""
LOOKUP_PAUSE: Final = 5 * SECOND
"""Microseconds before a run is tried again whose host name could not be resolved."""
LOOKUP_TIMEOUT: Final = 300.0
"""Seconds for which a host name that no name server answers for costs runs no attempts. Afterwards it is handled like a
name that does not exist: as a failure of the target.
"""
MAX_PREPARED: Final = 500
"""Maximum number of tasks whose request is prepared for further attempts."""
MAX_PREPARED_LENGTH: Final = 4 * 1024
"""Maximum number of bytes of a request that is prepared for further attempts."""

A = TypeVar("A", bound=ExecutorAttempt)
Result = Outcome | OutOfResources


class PreparedRequest(NamedTuple):
    task: Task
    parameters: Mapping[str, Any] | None
    """The parameters that are the body of the request. None if they are not: then they are not kept, because they may
    be large."""
    request: HttpRequest


class HttpExecutor:
    """Sends HTTP requests without cookies, and with connections that tenants do not share, so that jobs do not share
    sessions."""

    kind = "http"

    def __init__(self, lookups: Lookups | None = None, trust: ssl.SSLContext | None = None) -> None:
        """`lookups` resolves the host of each connection. `trust` has the certificates that https targets are checked
        with; by default those of the system.
        """
        self._lookups = lookups or Lookups()
        self._pool = HttpConnections(self._lookups, trust or _trust_of_system())
        self._egresses = Egresses()
        self._prepared: dict[int, PreparedRequest] = {}
        """Requests by the id of the task. The task is kept as well, so that no other task can get its id."""
        self._limited: dict[HttpCall, float] = {}
        """When the default timeout of a call passes, on the clock of the event loop. The earliest is the first."""
        self._timer: asyncio.TimerHandle | None = None

    async def close(self) -> None:
        """Close all idle connections. The executor may still be used."""
        self._pool.close()

    def in_background(self, task: Task) -> bool:
        return isinstance(task, Http)

    def start(self, attempt: A, ended: Callable[[A, Result], None]) -> None:
        self._start(attempt, lambda result: ended(attempt, result))

    async def execute(self, attempt: ExecutorAttempt) -> Outcome:
        ended: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        def end(result: Result) -> None:
            if not ended.done():
                ended.set_result(result)

        call = self._start(attempt, end)
        try:
            result = await ended
        except asyncio.CancelledError:
            if call is not None:
                call.stop()
            raise
        if isinstance(result, OutOfResources):
            raise result
        return result

    def _start(self, attempt: ExecutorAttempt, end: Callable[[Result], None]) -> HttpCall | None:
        task = attempt.task
        assert isinstance(task, Http)
        try:
            request = self._request(attempt)
        except ValueError as error:
            end(_failed(task, results.words(error)))
            return None

        def ended(call: HttpCall, answer: HttpResponse | Exception) -> None:
            self._limited.pop(call, None)
            try:
                result = self._result(call, answer)
            except Exception as error:  # else the attempt would keep its slot for ever
                result = Failed(Failure(kind="worker", message=f"{type(error).__name__}: {results.words(error)}"))
            end(result)

        call = HttpCall(self._pool, self._egresses.of(attempt), attempt, task, request, ended)
        if attempt.spec.timeout is None:  # else the worker stops the call in time
            self._limit(call)
        attempt.on_cancel(call.stop)
        call.begin()
        return call

    def _request(self, attempt: ExecutorAttempt) -> HttpRequest:
        task, parameters = attempt.task, attempt.spec.parameters
        known = self._prepared.get(id(task))
        if known is not None and (known.parameters is None or known.parameters is parameters):
            return known.request
        request = requests.of_attempt(attempt)
        if len(request.head) + len(request.body or b"") <= MAX_PREPARED_LENGTH:
            if len(self._prepared) >= MAX_PREPARED:
                self._prepared.clear()
            self._prepared[id(task)] = PreparedRequest(task, parameters if request.has_parameters else None, request)
        return request

    def _limit(self, call: HttpCall) -> None:
        loop = asyncio.get_running_loop()
        self._limited[call] = loop.time() + DEFAULT_TIMEOUT
        if self._timer is None:
            self._timer = loop.call_later(DEFAULT_TIMEOUT, self._stop_late_calls)

    def _stop_late_calls(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        for call, until in list(self._limited.items()):
            if until > loop.time():
                self._timer = loop.call_at(until, self._stop_late_calls)
                return
            call.time_is_over()

    def _result(self, call: HttpCall, answer: HttpResponse | Exception) -> Result:
        match answer:
            case HttpResponse():
                return _outcome(call.task, answer, call.attempt)
            case RedirectRefused():
                return _failed(call.task, str(answer), status=answer.status)
            case AddressRefused():
                self._egresses.log(answer)
                return _failed(call.task, answer.for_tenant(), kind=INVALID)
            case NotLookedUp() if call.hops:
                return _failed(call.task, f"cannot look up the name {call.host}: {answer}")
            case NotLookedUp():
                return OutOfResources(str(answer)) if answer.shortage else TryLater(str(answer), LOOKUP_PAUSE)
            case CannotConnect() if call.hops == 0 and (shortage := self._shortage(answer)) is not None:
                return shortage  # after a redirect, the first target has already acted on the request
            case OSError() | ValueError() | CannotConnect():
                return _failed(call.task, results.words(answer))
            case _:
                raise answer

    def _shortage(self, error: CannotConnect) -> OutOfResources | None:
        """Return an error that returns the run to the queue if the target is not the cause: this machine lacks a
        resource, or no name server answers.
        """
        if is_shortage(error.cause):
            return OutOfResources(str(error))
        unanswered = isinstance(error.cause, socket.gaierror) and error.cause.errno == socket.EAI_AGAIN
        if unanswered and self._lookups.failing_for(error.host) < LOOKUP_TIMEOUT:
            return TryLater(str(error), LOOKUP_PAUSE)
        return None


@cache
def _trust_of_system() -> ssl.SSLContext:
    trust = ssl.create_default_context()
    trust.set_alpn_protocols(["http/1.1"])
    return trust


def _outcome(task: Http, answer: HttpResponse, attempt: ExecutorAttempt) -> Outcome:
    if 200 <= answer.status < 300 or answer.status in task.accepted_statuses:
        if answer.broken:
            attempt.log(
                "system", f"the target answered {answer.line}, and {answer.broken}; the status decides the outcome\n"
            )
        return Succeeded(response.result(answer))
    retry_after = response.retry_after(answer.headers) if answer.status in (429, 503) else None
    return _failed(task, response.message(answer), status=answer.status, retry_after=retry_after)


def _failed(
    task: Http, message: str, *, kind: str = "http", status: int | None = None, retry_after: Micros | None = None
) -> Failed:
    """Return a failure that names the target without the parts of its URL that may be secret."""
    try:
        where = str(URL(task.url).with_user(None).with_query(None).with_fragment(None))
    except ValueError:  # the rules of the client for a URL are stricter than those of the server
        where = "the URL"
    return Failed(
        Failure(kind=kind, message=f"{task.method} {where}: {message}", status=status, retry_after=retry_after)
    )
