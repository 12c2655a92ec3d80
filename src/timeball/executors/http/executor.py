"""The executor of HTTP tasks.

It follows redirects itself, because what may be sent depends on the redirect target. To the same origin (scheme, host,
port) everything is sent. To another origin, headers that look like credentials and the user in the URL are not sent.
After a 301, 302 or 303, all methods except GET and HEAD become a GET without a body. A 307 or 308 keeps the method and
the body, and a body is sent only to an origin that the job names; otherwise the attempt fails and its message has the
redirect target. The one exception is the same host, from http to https on their default ports: that host already got
the body, and now gets it encrypted.

The status of an answer decides the outcome as soon as it has arrived, even if the rest of the answer cannot be read
(see `http.response`). Only the timeout of the job, or a cancel, gives another outcome to a call whose body is still
being received.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Final

import aiohttp
import msgspec
from msgspec import UNSET, Struct
from yarl import URL

from timeball.domain.instant import SECOND, Micros
from timeball.domain.run.lifecycle import Failed, Failure, Outcome, Succeeded
from timeball.domain.task import http_headers
from timeball.domain.task.task import Http
from timeball.executors import results
from timeball.executors.environment import encoded_parameters, traceparent
from timeball.executors.http import response
from timeball.executors.http.pool import CleanConnector, HeadUnread
from timeball.executors.http.response import HttpResponse
from timeball.lookups import Lookups, NotLookedUp
from timeball.ports.executor import ExecutorAttempt, OutOfResources, TryLater
from timeball.resource_shortage import is_shortage

DEFAULT_TIMEOUT: Final = 300.0
"""Seconds for the whole call if the job has no timeout."""
CONNECT: Final = 30.0
MAX_REDIRECTS: Final = 5
MAX_HEADER_READ: Final = 32 * 1024
"""Maximum number of bytes of one line in the head of an answer. If a line is longer, only the status of the answer is
known.
"""
WITH_PARAMETERS: Final = ("POST", "PUT", "PATCH")
LOOKUP_PAUSE: Final = 5 * SECOND
"""Microseconds before a run is tried again whose host name could not be resolved."""
LOOKUP_TIMEOUT: Final = 300.0
"""Seconds for which a host name that no name server answers for costs runs no attempts. Afterwards it is handled like a
name that does not exist: as a failure of the target.
"""
REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
METHOD_KEEPING_STATUSES: Final = frozenset({307, 308})


class _Request(Struct, frozen=True):
    """One request of a call. A redirect creates another one."""

    method: str
    url: URL
    headers: dict[str, str]
    """The headers of the job."""
    body: bytes | None


class _RedirectRefused(Exception):
    """Raised when the target redirects to a place that the request must not be sent to."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class HttpExecutor:
    """Sends HTTP requests with one connection pool and without cookies, so that jobs do not share sessions."""

    kind = "http"

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._lookups = Lookups()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def execute(self, attempt: ExecutorAttempt) -> Outcome:
        task = attempt.task
        assert isinstance(task, Http)
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=CleanConnector(self._lookups),
                cookie_jar=aiohttp.DummyCookieJar(),
                max_line_size=MAX_HEADER_READ,
                max_field_size=MAX_HEADER_READ,
            )
            # aiohttp repeats an idempotent request when a pooled connection breaks, and has no public option for that.
            # Here every request belongs to one attempt, and the retry policy decides about another.
            self._session._retry_connection = False  # noqa: SLF001
        # The worker applies the timeout of the job.
        now = asyncio.get_running_loop().time()
        deadline = None if attempt.spec.timeout is not None else now + DEFAULT_TIMEOUT
        try:
            answer = await self._call(self._session, task, attempt, deadline)
        except TimeoutError:
            return _failed(task, "no answer in time")
        except _RedirectRefused as refused:
            return _failed(task, str(refused), status=refused.status)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return _failed(task, _words(error))
        return _outcome(task, answer, attempt)

    async def _call(
        self, session: aiohttp.ClientSession, task: Http, attempt: ExecutorAttempt, deadline: float | None
    ) -> HttpResponse:
        headers, body = _content(task, attempt)
        request = _Request(task.method, URL(task.url), headers, body)
        follows = not any(300 <= status < 400 for status in task.accepted_statuses)
        for hop in range(MAX_REDIRECTS + 1):
            try:
                async with asyncio.timeout_at(deadline):
                    answer = await session.request(
                        request.method,
                        request.url,
                        headers={**_headers(attempt), **request.headers, **_identity(attempt)},
                        data=request.body,
                        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT),
                        allow_redirects=False,
                    )
            except HeadUnread as unread:
                return HttpResponse(unread.status, broken=str(unread))
            except aiohttp.ClientConnectorError as error:
                if hop == 0:  # after a redirect, the first target has already acted on the request
                    self._raise_unless_target_failed(error)
                raise
            except NotLookedUp as error:
                if hop:
                    raise OSError(f"cannot look up the name {request.url.host}: {error}") from error
                if error.shortage:
                    raise OutOfResources(str(error)) from error
                raise TryLater(str(error), LOOKUP_PAUSE) from error
            async with answer:
                location = answer.headers.get("Location")
                if not follows or answer.status not in REDIRECT_STATUSES or location is None:
                    return await response.read(answer, deadline)
                request = _redirected(request, answer.status, location)
        raise _RedirectRefused(f"the target redirected more than {MAX_REDIRECTS} times")

    def _raise_unless_target_failed(self, error: aiohttp.ClientConnectorError) -> None:
        """Raise an error that returns the run to the queue if the target is not the cause: this machine lacks a
        resource, or no name server answers.
        """
        if is_shortage(error.os_error):
            raise OutOfResources(_words(error)) from error
        failed = error.os_error
        unanswered = isinstance(failed, socket.gaierror) and failed.errno == socket.EAI_AGAIN
        if unanswered and self._lookups.failing_for(error.host) < LOOKUP_TIMEOUT:
            raise TryLater(_words(error), LOOKUP_PAUSE) from error


def _redirected(request: _Request, status: int, location: str) -> _Request:
    """Return the request that follows a redirect."""
    try:
        url = request.url.join(URL(location))
        same_origin = url.origin() == request.url.origin()
    except ValueError as error:
        raise _RedirectRefused(f"the target redirected to an invalid URL ({error})", status) from None
    if url.scheme not in ("http", "https") or not url.host:
        raise _RedirectRefused("the target redirected to a URL that is not http or https", status)
    if url.user is None and url.password is None and same_origin:
        url = url.with_user(request.url.user).with_password(request.url.password)
    method, headers, body = request.method, request.headers, request.body
    if status not in METHOD_KEEPING_STATUSES and method not in ("GET", "HEAD"):
        method, body = "GET", None
        headers = {name: value for name, value in headers.items() if not name.lower().startswith("content-")}
    if not same_origin:
        if body and not _is_upgrade(request.url, url):
            raise _RedirectRefused(
                f"the target redirected to another origin, {url.origin()}, and the body is not sent there", status
            )
        headers = http_headers.for_another_origin(headers)
    return _Request(method, url, headers, body)


def _is_upgrade(old: URL, new: URL) -> bool:
    """True if the new URL is the same host, now encrypted."""
    return old.host == new.host and (old.scheme, old.port, new.scheme, new.port) == ("http", 80, "https", 443)


def _words(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        number = error.os_error.errno or 0
        # error numbers of the resolver are negative
        reason = os.strerror(number) if number > 0 else error.os_error.strerror
        return f"cannot connect to {error.host}:{error.port}: {reason}"
    return results.words(error)


def _headers(attempt: ExecutorAttempt) -> dict[str, str]:
    """Return the headers that the task may replace."""
    return {"User-Agent": "Timeball", "Idempotency-Key": attempt.run_id, "traceparent": traceparent(attempt)}


def _identity(attempt: ExecutorAttempt) -> dict[str, str]:
    return {
        "X-Timeball-Run-Id": attempt.run_id,
        "X-Timeball-Attempt": str(attempt.attempt),
        "X-Timeball-Fencing-Token": str(attempt.token),
    }


def _content(task: Http, attempt: ExecutorAttempt) -> tuple[dict[str, str], bytes | None]:
    """Return the headers of the task and the body. The content type is added if the task does not set one."""
    if task.body is not UNSET:
        value = msgspec.json.decode(task.body)
        is_text = isinstance(value, str)
        body = value.encode() if is_text else bytes(task.body)
        kind = "text/plain; charset=utf-8" if is_text else "application/json"
    elif task.method in WITH_PARAMETERS:
        body, kind = encoded_parameters(attempt), "application/json"
    else:
        return dict(task.headers), None
    named = any(name.lower() == "content-type" for name in task.headers)
    return dict(task.headers) if named else {**task.headers, "Content-Type": kind}, body


def _outcome(task: Http, answer: HttpResponse, attempt: ExecutorAttempt) -> Outcome:
    if 200 <= answer.status < 300 or answer.status in task.accepted_statuses:
        if answer.broken:
            attempt.log(
                "system", f"the target answered {answer.line}, and {answer.broken}; the status decides the outcome\n"
            )
        return Succeeded(response.result(answer))
    retry_after = response.retry_after(answer.headers) if answer.status in (429, 503) else None
    return _failed(task, response.message(answer), status=answer.status, retry_after=retry_after)


def _failed(task: Http, message: str, *, status: int | None = None, retry_after: Micros | None = None) -> Failed:
    """Return a failure that names the target without the parts of its URL that may be secret."""
    url = URL(task.url)
    where = url.with_user(None).with_query(None).with_fragment(None)
    return Failed(
        Failure(kind="http", message=f"{task.method} {where}: {message}", status=status, retry_after=retry_after)
    )
