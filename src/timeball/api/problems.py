"""Errors as `application/problem+json` (RFC 9457): one table from error class to status."""

from __future__ import annotations

from typing import Final

import structlog
from msgspec import UNSET, Struct, UnsetType

from timeball.api.headers import RepeatedHeader
from timeball.domain import errors
from timeball.domain.errors import TimeballError
from timeball.jobspec.errors import Malformed, UnsupportedEncoding
from timeball.ports.clock import Rng
from timeball.ports.worker_protocol import SessionLost

log = structlog.get_logger("timeball.api")

CONTENT_TYPE: Final = b"application/problem+json"


class MethodNotAllowed(TimeballError):
    """Raised when the path exists, but not with this method."""

    code = "method_not_allowed"

    def __init__(self, method: str, allowed: str) -> None:
        super().__init__(f"{method} is not allowed here; use {allowed}")
        self.allowed = allowed


class NotReady(TimeballError):
    """Raised when the server is starting, or one of its readiness checks fails."""

    code = "not_ready"


class CrossSite(errors.Forbidden):
    """Raised for a request with a session that does not come from the web UI of this server."""

    code = "cross_site"


class SignInRefused(errors.Forbidden):
    """Raised when browsers cannot sign in at this address."""

    code = "sign_in_refused"


STATUSES: Final[dict[type[Exception], tuple[int, str]]] = {
    Malformed: (400, "The request cannot be read"),
    errors.Unauthorized: (401, "A valid key is needed"),
    errors.Forbidden: (403, "This key does not have the permission"),
    CrossSite: (403, "The request does not come from the web UI"),
    SignInRefused: (403, "Sign-in is refused here"),
    errors.QuotaExceeded: (403, "A quota of the tenant is used up"),
    errors.NotFound: (404, "Not found"),
    MethodNotAllowed: (405, "Method not allowed"),
    errors.Conflict: (409, "The state of the resource does not allow this"),
    SessionLost: (409, "The worker's session has ended"),
    errors.PreconditionFailed: (412, "The resource was changed in between"),
    errors.TooLarge: (413, "Too large"),
    UnsupportedEncoding: (415, "The body's encoding is not supported"),
    errors.Invalid: (422, "A value is wrong"),
    errors.InvalidSchedule: (422, "The schedule is wrong"),
    errors.IdempotencyMismatch: (422, "The idempotency key was used for another request"),
    errors.TooManyRequests: (429, "Too many requests"),
    errors.RateLimited: (429, "The rate of requests is too high"),
    errors.DailyQuotaExceeded: (429, "The quota of runs of this day is used up"),
    errors.Unavailable: (503, "Not available right now"),
    NotReady: (503, "Not ready"),
}
"""The HTTP status and the title of every error that a client can get. A class that is not listed is answered like its
parent."""

UNEXPECTED: Final = (500, "Something went wrong on the server")


class Pointed(Struct, frozen=True):
    """One invalid value: a JSON pointer into the body, or `/query/NAME` or `/header/NAME`, and the reason."""

    pointer: str
    detail: str


class Problem(Struct, frozen=True, kw_only=True):
    """A problem document of RFC 9457, with a stable `code` and one entry in `errors` per invalid value."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[Pointed] | UnsetType = UNSET
    incident: str | UnsetType = UNSET
    """The id of the log entry on the server."""
    checks: dict[str, bool] | UnsetType = UNSET


def problem(error: Exception) -> Problem:
    """Return the problem document for an error in the table."""
    status, title = _status(error)
    if isinstance(error, TimeballError):
        code, detail = error.code, error.detail
    else:
        code, detail = "session_lost", "the session's lease lapsed or the session is unknown; register again"
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


def unexpected(error: Exception, rng: Rng, method: str, path: str) -> Problem:
    """Log an unexpected error, and return a problem document with the id of the log entry."""
    incident = f"{rng.getrandbits(64):016x}"
    log.error("request failed", incident=incident, method=method, path=path, exc_info=error)
    status, title = UNEXPECTED
    return Problem(
        type="/docs#problem-internal",
        title=title,
        status=status,
        detail=f"this is a bug in the server; its log has the details under incident {incident}",
        code="internal",
        incident=incident,
    )


def headers(error: Exception) -> list[tuple[bytes, bytes]]:
    """Return the headers that HTTP requires for this error."""
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
