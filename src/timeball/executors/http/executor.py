"""HTTP calls.

Redirects are followed here and not by the HTTP client, since what goes along depends on where they lead. Within an
origin (scheme, host, port) everything goes along. To another origin go neither headers that look like credentials nor
the user of the address. A 301, 302 or 303 makes a GET without a body of everything but GET and HEAD. A 307 or 308 keeps
the method and the body, and a body goes only to an origin that the job names: else the attempt fails and says where the
target wanted it to go. The one exception is the same host, from http to https on their usual ports: that host has got
the body already, and now gets it encrypted.

The status of an answer decides as soon as it has arrived, also if the rest cannot be read: see `http_answer`. Only the
job's own timeout, or a cancel, ends a call whose body is still on its way as something else.
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
from timeball.ports.executor import Attempt, OutOfResources, TryLater
from timeball.resource_shortage import is_shortage

DEFAULT_TIMEOUT: Final = 300.0
"""Seconds for the whole call when the job has no timeout of its own."""
CONNECT: Final = 30.0
MAX_REDIRECTS: Final = 5
MAX_HEADER_READ: Final = 32 * 1024
"""Bytes of a line of an answer's head. Of an answer with a longer one only the status is known."""
WITH_PARAMETERS: Final = ("POST", "PUT", "PATCH")
LOOKUP_PAUSE: Final = 5 * SECOND
"""How long a run waits whose host cannot be looked up for now."""
LOOKUP_TIMEOUT: Final = 300.0
"""Seconds for which a name that no name server answers for costs runs no attempts. Then it is like one that does not
exist: a failure of the target."""
REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
METHOD_KEEPING_STATUSES: Final = frozenset({307, 308})


class _Request(Struct, frozen=True):
    """One request of a call; a redirect makes another of it."""

    method: str
    url: URL
    headers: dict[str, str]
    """Those of the job."""
    body: bytes | None


class _RedirectRefused(Exception):
    """The target wants the call to go where it must not go."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class HttpExecutor:
    """Calls with one pool of connections and no cookies: one job's session is none of another's business."""

    kind = "http"

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._lookups = Lookups()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def execute(self, attempt: Attempt) -> Outcome:
        task = attempt.task
        assert isinstance(task, Http)
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=CleanConnector(self._lookups),
                cookie_jar=aiohttp.DummyCookieJar(),
                max_line_size=MAX_HEADER_READ,
                max_field_size=MAX_HEADER_READ,
            )
            # aiohttp sends an idempotent request again when a connection of the pool breaks, and has no public switch
            # for that. Here every request belongs to one attempt: the retry policy decides about another.
            self._session._retry_connection = False  # noqa: SLF001
        # The job's own timeout is the worker's business.
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
        self, session: aiohttp.ClientSession, task: Http, attempt: Attempt, deadline: float | None
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
                if hop == 0:  # behind a redirect the target has done something already
                    self._hand_back(error)
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

    def _hand_back(self, error: aiohttp.ClientConnectorError) -> None:
        """Raises if nothing is wrong with the target: this machine lacks something, or no name server answers."""
        if is_shortage(error.os_error):
            raise OutOfResources(_words(error)) from error
        failed = error.os_error
        unanswered = isinstance(failed, socket.gaierror) and failed.errno == socket.EAI_AGAIN
        if unanswered and self._lookups.failing_for(error.host) < LOOKUP_TIMEOUT:
            raise TryLater(_words(error), LOOKUP_PAUSE) from error


def _redirected(request: _Request, status: int, location: str) -> _Request:
    """The request that follows a redirect."""
    try:
        url = request.url.join(URL(location))
        same_origin = url.origin() == request.url.origin()
    except ValueError as error:
        raise _RedirectRefused(f"the target redirected to no URL ({error})", status) from None
    if url.scheme not in ("http", "https") or not url.host:
        raise _RedirectRefused("the target redirected to something else than an http or https URL", status)
    if url.user is None and url.password is None and same_origin:
        url = url.with_user(request.url.user).with_password(request.url.password)
    method, headers, body = request.method, request.headers, request.body
    if status not in METHOD_KEEPING_STATUSES and method not in ("GET", "HEAD"):
        method, body = "GET", None
        headers = {name: value for name, value in headers.items() if not name.lower().startswith("content-")}
    if not same_origin:
        if body and not _is_upgrade(request.url, url):
            raise _RedirectRefused(
                f"the target redirected to another origin, {url.origin()}, which does not get the body", status
            )
        headers = http_headers.for_another_origin(headers)
    return _Request(method, url, headers, body)


def _is_upgrade(old: URL, new: URL) -> bool:
    """Whether it is the same host, now encrypted."""
    return old.host == new.host and (old.scheme, old.port, new.scheme, new.port) == ("http", 80, "https", 443)


def _words(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        number = error.os_error.errno or 0
        reason = os.strerror(number) if number > 0 else error.os_error.strerror  # the resolver counts below zero
        return f"cannot connect to {error.host}:{error.port}: {reason}"
    return results.words(error)


def _headers(attempt: Attempt) -> dict[str, str]:
    """What the task's own headers may replace."""
    return {"User-Agent": "Timeball", "Idempotency-Key": attempt.run_id, "traceparent": traceparent(attempt)}


def _identity(attempt: Attempt) -> dict[str, str]:
    return {
        "X-Timeball-Run-Id": attempt.run_id,
        "X-Timeball-Attempt": str(attempt.attempt),
        "X-Timeball-Fencing-Token": str(attempt.token),
    }


def _content(task: Http, attempt: Attempt) -> tuple[dict[str, str], bytes | None]:
    """The body, and the task's headers with its type if they do not name one."""
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


def _outcome(task: Http, answer: HttpResponse, attempt: Attempt) -> Outcome:
    if 200 <= answer.status < 300 or answer.status in task.accepted_statuses:
        if answer.broken:
            attempt.log("system", f"the target answered {answer.line}, and {answer.broken}; the status decides\n")
        return Succeeded(response.result(answer))
    patience = response.retry_after(answer.headers) if answer.status in (429, 503) else None
    return _failed(task, response.message(answer), status=answer.status, patience=patience)


def _failed(task: Http, message: str, *, status: int | None = None, patience: Micros | None = None) -> Failed:
    """Names the target without what may be secret in its address."""
    url = URL(task.url)
    where = url.with_user(None).with_query(None).with_fragment(None)
    return Failed(
        Failure(kind="http", message=f"{task.method} {where}: {message}", status=status, retry_after=patience)
    )
