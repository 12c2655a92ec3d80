"""Requests of HTTP tasks as the bytes that are sent.

Most of a request is the same in every attempt of equal jobs, so it is prepared once for a spec. An attempt adds its
identity.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Struct, structs
from yarl import URL

from timeball.domain.task import http_headers
from timeball.domain.task.task import Http
from timeball.executors.environment import encoded_parameters, traceparent
from timeball.ports.executor import ExecutorAttempt

WITH_PARAMETERS: Final = ("POST", "PUT", "PATCH")
WITHOUT_BODY: Final = ("GET", "HEAD", "OPTIONS")
"""Methods whose requests have no `Content-Length` if they have no body."""
REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
METHOD_KEEPING_STATUSES: Final = frozenset({307, 308})
DEFAULTS: Final = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate", "User-Agent": "Timeball"}
"""Headers that a job may replace."""
KEY: Final = "Idempotency-Key"
TRACE: Final = "traceparent"

Origin = tuple[str, str, int]
"""Scheme, host and port of a URL. Requests to one origin share connections."""


class HttpRequest(Struct, frozen=True):
    """One request of a call. A redirect creates another one."""

    method: str
    url: URL
    headers: Mapping[str, str]
    """The headers of the job."""
    body: bytes | None
    origin: Origin
    head: bytes
    """The request line and the headers that are the same in every attempt."""
    sends_key: bool
    """True if the attempt adds an `Idempotency-Key`, because the job has none."""
    sends_trace: bool
    has_parameters: bool = False
    """True if the body is the parameters of the job."""


class RedirectRefused(Exception):
    """Raised when the target redirects to a place that the request must not be sent to."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


def of_attempt(attempt: ExecutorAttempt) -> HttpRequest:
    """Return the first request of a call. Raise `ValueError` if the URL or the headers cannot be sent."""
    task = attempt.task
    assert isinstance(task, Http)
    headers: Mapping[str, str] = task.headers
    if task.body is not UNSET:
        value = msgspec.json.decode(task.body)
        is_text = isinstance(value, str)
        body = value.encode() if is_text else bytes(task.body)
        kind = "text/plain; charset=utf-8" if is_text else "application/json"
    elif task.method in WITH_PARAMETERS:
        body, kind = encoded_parameters(attempt), "application/json"
    else:
        return request(task.method, URL(task.url), headers, None)
    if not any(name.lower() == "content-type" for name in headers):
        headers = {**headers, "Content-Type": kind}
    made = request(task.method, URL(task.url), headers, body)
    return made if task.body is not UNSET else structs.replace(made, has_parameters=True)


def request(method: str, url: URL, headers: Mapping[str, str], body: bytes | None) -> HttpRequest:
    host, port = url.raw_host, url.port
    if not host or port is None:
        raise ValueError(f"the URL has no host or no port: {url.with_user(None).with_query(None)}")
    sent = {name.lower(): (name, value) for name, value in headers.items()}
    for name in [name for name in sent if name.startswith(http_headers.IDENTITY_PREFIX)]:
        del sent[name]  # of a job that was stored before such headers were refused
    first = {"host": ("Host", url.host_port_subcomponent or host)}
    first.update((name.lower(), (name, value)) for name, value in DEFAULTS.items())
    if url.user is not None or url.password is not None:
        if "authorization" in sent:
            raise ValueError("the job has both an Authorization header and a user in its URL; remove one of them")
        first["authorization"] = ("Authorization", _basic(url.user or "", url.password or ""))
    if body is not None or method not in WITHOUT_BODY:
        first["content-length"] = ("Content-Length", str(len(body or b"")))
    lines = "".join(f"{name}: {value}\r\n" for name, value in {**first, **sent}.values())
    return HttpRequest(
        method,
        url,
        headers,
        body,
        (url.scheme, host, port),
        f"{method} {url.raw_path_qs} HTTP/1.1\r\n{lines}".encode(),
        KEY.lower() not in sent,
        TRACE not in sent,
    )


def rendered(request: HttpRequest, attempt: ExecutorAttempt) -> bytes:
    """Return the bytes of a request of an attempt."""
    run_id = attempt.run_id
    key = f"{KEY}: {run_id}\r\n" if request.sends_key else ""
    trace = f"{TRACE}: {traceparent(attempt)}\r\n" if request.sends_trace else ""
    identity = (
        f"{key}{trace}X-Timeball-Run-Id: {run_id}\r\nX-Timeball-Attempt: {attempt.attempt}\r\n"
        f"X-Timeball-Fencing-Token: {attempt.token}\r\n\r\n"
    )
    return b"%b%b%b" % (request.head, identity.encode(), request.body or b"")


def redirected(old: HttpRequest, status: int, location: str) -> HttpRequest:
    """Return the request that follows a redirect."""
    try:
        url = old.url.join(URL(location))
        same_origin = url.origin() == old.url.origin()
    except ValueError as error:
        raise RedirectRefused(f"the target redirected to an invalid URL ({error})", status) from None
    if url.scheme not in ("http", "https") or not url.host:
        raise RedirectRefused("the target redirected to a URL that is not http or https", status)
    if url.user is None and url.password is None and same_origin:
        url = url.with_user(old.url.user).with_password(old.url.password)
    method, headers, body = old.method, old.headers, old.body
    if status not in METHOD_KEEPING_STATUSES and method not in ("GET", "HEAD"):
        method, body = "GET", None
        headers = {name: value for name, value in headers.items() if not name.lower().startswith("content-")}
    if not same_origin:
        if body and not _is_upgrade(old.url, url):
            raise RedirectRefused(
                f"the target redirected to another origin, {url.origin()}, and the body is not sent there", status
            )
        headers = http_headers.for_another_origin(headers)
    return request(method, url, headers, body)


def _is_upgrade(old: URL, new: URL) -> bool:
    """True if the new URL is the same host, now encrypted."""
    return old.host == new.host and (old.scheme, old.port, new.scheme, new.port) == ("http", 80, "https", 443)


def _basic(user: str, password: str) -> str:
    if ":" in user:
        raise ValueError("the user in the URL contains a colon, which HTTP cannot send")
    credentials = f"{user}:{password}"
    try:
        encoded = credentials.encode("latin-1")
    except UnicodeEncodeError:
        encoded = credentials.encode()
    return "Basic " + base64.b64encode(encoded).decode()
