"""The parts of an exchange that do not wait for anything: shared by every client.

What goes out for a request, what its answer means, and how long to wait before it is sent again.
"""

from __future__ import annotations

from typing import Final, TypeVar, cast

import msgspec

from timeball.client import errors
from timeball.client.requests import Request
from timeball.client.transport import Incoming, Outgoing
from timeball.domain.errors import TimeballError, Unavailable

T = TypeVar("T")

RETRIES: Final = 3
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
"""Seconds. A server that asks for more patience than this is reported to the caller instead."""


def outgoing(request: Request[T], token: str | None, user_agent: str) -> Outgoing:
    headers = {"Accept": "application/json", "User-Agent": user_agent, **request.headers}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    body = None
    if request.body is not None:
        headers["Content-Type"] = "application/json"
        body = msgspec.json.encode(request.body)
    return Outgoing(request.method, request.target, headers, body)


def body_of(incoming: Incoming) -> bytes:
    """The body of a good answer; the error that a bad one stands for."""
    if incoming.status >= 400:
        raise errors.from_answer(incoming.status, incoming.headers, incoming.body)
    return incoming.body


def read(request: Request[T], body: bytes) -> T:
    if request.answer is bytes:
        return cast(T, body)
    try:
        return msgspec.json.decode(body, type=request.answer)
    except msgspec.MsgspecError as error:
        raise TimeballError(
            f"{request.method} {request.path} got an answer that this client cannot read ({error});"
            " is this Timeball's address, and is the client as new as the server?"
        ) from error


def pause_before_repeating(request: Request[T], incoming: Incoming, attempt: int) -> float | None:
    """How long to wait before a request that got this answer is sent again; None: take the answer as it is."""
    if incoming.status != 503 or not request.repeatable:
        return None
    wanted = max(errors.retry_after(incoming.headers) or 0.0, backoff(attempt))
    return wanted if wanted <= LONGEST_PAUSE else None


def backoff(attempt: int) -> float:
    return min(FIRST_PAUSE * 2.0**attempt, LONGEST_PAUSE)


def unreachable(servers: tuple[str, ...], reason: object) -> Unavailable:
    return Unavailable(
        f"cannot reach Timeball at {' or '.join(servers)} ({reason}); start it with `timeball up`,"
        " or say where it runs with --url or TIMEBALL_URL"
    )


def interrupted(request: Request[T], server: str, reason: object) -> Unavailable:
    fate = "" if request.repeatable else "; it may have taken effect: look before you repeat it"
    return Unavailable(f"the connection to {server} broke during {request.method} {request.path} ({reason}){fate}")
