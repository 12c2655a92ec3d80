"""What went wrong, as `application/problem+json` (RFC 9457): one table from error class to status."""

from __future__ import annotations

from typing import Final

import structlog
from msgspec import UNSET, Struct, UnsetType

from timeball.api.headers import RepeatedHeader
from timeball.domain import errors
from timeball.domain.errors import TimeballError
from timeball.jobspec.errors import Malformed, UnsupportedEncoding
from timeball.ports.clock import Dice
from timeball.ports.worker_protocol import SessionLost

log = structlog.get_logger("timeball.api")

CONTENT_TYPE: Final = b"application/problem+json"


class MethodNotAllowed(TimeballError):
    """The path exists; the method does not."""

    code = "method_not_allowed"

    def __init__(self, method: str, allowed: str) -> None:
        super().__init__(f"{method} is not possible here; use {allowed}")
        self.allowed = allowed


class NotReady(TimeballError):
    """The server is starting or has lost something it needs."""

    code = "not_ready"


STATUSES: Final[dict[type[Exception], tuple[int, str]]] = {
    Malformed: (400, "The request cannot be read"),
    errors.Unauthorized: (401, "A valid key is needed"),
    errors.Forbidden: (403, "This key may not do that"),
    errors.NotFound: (404, "Not found"),
    MethodNotAllowed: (405, "Method not allowed"),
    errors.Conflict: (409, "Its state does not allow this"),
    SessionLost: (409, "The worker's session is over"),
    errors.PreconditionFailed: (412, "Somebody else changed it"),
    errors.TooLarge: (413, "Too large"),
    UnsupportedEncoding: (415, "The body's encoding is not supported"),
    errors.Invalid: (422, "A value is wrong"),
    errors.InvalidSchedule: (422, "The schedule is wrong"),
    errors.IdempotencyMismatch: (422, "The idempotency key was used for another request"),
    errors.TooManyRequests: (429, "Too many requests"),
    errors.Unavailable: (503, "Not available right now"),
    NotReady: (503, "Not ready"),
}
"""Every error a client can meet. A class that is not here is answered like its parent."""

UNEXPECTED: Final = (500, "Something went wrong on the server")


class Pointed(Struct, frozen=True):
    """One wrong value: a JSON pointer into the body, or `/query/NAME`, `/header/NAME`; and what is wrong with it."""

    pointer: str
    detail: str


class Problem(Struct, frozen=True, kw_only=True):
    """RFC 9457, with a stable `code` and one entry in `errors` per wrong value."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[Pointed] | UnsetType = UNSET
    incident: str | UnsetType = UNSET
    """What to look for in the server's log."""
    checks: dict[str, bool] | UnsetType = UNSET


def problem(error: Exception) -> Problem:
    """What a client is told about an error that is in the table."""
    status, title = _status(error)
    if isinstance(error, TimeballError):
        code, detail = error.code, error.detail
    else:
        code, detail = "session_lost", "the session's lease lapsed or nobody knows it; say hello again"
    wrong = error.problems if isinstance(error, errors.Invalid) else ()
    return Problem(
        type=f"/docs#problem-{code}",
        title=title,
        status=status,
        detail=detail,
        code=code,
        errors=[Pointed(item.pointer, item.detail) for item in wrong] or UNSET,
    )


def is_expected(error: Exception) -> bool:
    return any(kind in STATUSES for kind in type(error).__mro__)


def unexpected(error: Exception, dice: Dice, method: str, path: str) -> Problem:
    """A bug: the log gets everything, the client a number to ask for."""
    incident = f"{dice.getrandbits(64):016x}"
    log.error("request failed", incident=incident, method=method, path=path, exc_info=error)
    status, title = UNEXPECTED
    return Problem(
        type="/docs#problem-internal",
        title=title,
        status=status,
        detail=f"this is a bug, not your fault; the server's log tells more under incident {incident}",
        code="internal",
        incident=incident,
    )


def headers(error: Exception) -> list[tuple[bytes, bytes]]:
    """What else a client needs to know, by the rules of HTTP."""
    match error:
        case errors.Unauthorized():
            return [(b"www-authenticate", b'Bearer realm="timeball"')]
        case MethodNotAllowed():
            return [(b"allow", error.allowed.encode())]
        case errors.TooManyRequests() | errors.Unavailable():
            return [(b"retry-after", str(max(1, round(error.retry_after))).encode())]
        case NotReady():
            return [(b"retry-after", b"1")]
        case errors.TooLarge() | RepeatedHeader():
            return [(b"connection", b"close")]
        case _:
            return []


def _status(error: Exception) -> tuple[int, str]:
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
