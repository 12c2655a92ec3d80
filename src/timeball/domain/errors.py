"""The errors of the domain and of the operations, as one tree. Other layers add subclasses of `TimeballError`.

    TimeballError
    ├── Invalid               a value is wrong; carries one WrongValue per wrong value
    │   └── InvalidSchedule   a schedule is wrong
    ├── IdempotencyMismatch   the idempotency key was used before, with another body
    ├── Unauthorized          the credential is missing or not valid
    ├── Forbidden             the credential is valid, but does not allow the request
    ├── QuotaExceeded         a quota of the tenant is used up
    ├── NotFound              the object does not exist, or belongs to another tenant
    ├── Conflict              the state of the object does not allow the operation
    ├── PreconditionFailed    If-Match has another version than the object
    ├── TooLarge              a body, batch or value exceeds its limit
    ├── TooManyRequests       a limit was reached; try again later
    │   ├── RateLimited       the rate of requests of a credential or a tenant exceeds its limit
    │   └── DailyQuotaExceeded   the tenant may begin no more runs this day
    └── Unavailable           the store, the object storage or the server cannot do this now; try again later

Errors carry data in addition to a message. `api/problems.py` maps each class to an HTTP status.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class WrongValue:
    """One wrong value: its JSON pointer, and a message for people."""

    pointer: str
    detail: str


class TimeballError(Exception):
    """The base class of all errors. `code` is stable and part of the API."""

    code: ClassVar[str] = "error"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Invalid(TimeballError):
    """One or more values are wrong. No data was changed."""

    code = "invalid"

    def __init__(self, detail: str, pointer: str = "", problems: tuple[WrongValue, ...] = ()) -> None:
        super().__init__(detail)
        self.problems = problems or (WrongValue(pointer, detail),)


class InvalidSchedule(Invalid):
    """A cron expression, interval, date or time zone is invalid, or the schedule never fires."""

    code = "invalid_schedule"


class IdempotencyMismatch(TimeballError):
    """The idempotency key was used by an earlier request with another body."""

    code = "idempotency_mismatch"


class Unauthorized(TimeballError):
    """The request has no credential, or one that is unknown, expired, malformed, or of a disabled user."""

    code = "unauthorized"


class Forbidden(TimeballError):
    """The credential is valid, but its role, its scopes or another of its limits do not allow the request."""

    code = "forbidden"


class QuotaExceeded(TimeballError):
    """A quota of the tenant is used up, and does not become free by itself."""

    code = "quota_exceeded"


class NotFound(TimeballError):
    """The object does not exist, or the caller may not see it."""

    code = "not_found"

    def __init__(self, what: str, ident: str) -> None:
        super().__init__(f"there is no {what} {ident!r}")
        self.what = what
        self.ident = ident


class Conflict(TimeballError):
    """The object exists, but its state does not allow the operation."""

    code = "conflict"


class PreconditionFailed(TimeballError):
    """If-Match has a version that is not the current one."""

    code = "precondition_failed"


class TooLarge(TimeballError):
    """A body, batch or value exceeds its limit."""

    code = "too_large"


class TooManyRequests(TimeballError):
    """A limit was reached. The client may try again after `retry_after` seconds."""

    code = "too_many_requests"

    def __init__(self, detail: str, retry_after: float = 1.0) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class RateLimited(TooManyRequests):
    """An API key, a user of the identity provider or a tenant sends more requests than its rate limit allows."""

    code = "rate_limited"


class DailyQuotaExceeded(TooManyRequests):
    """The tenant may begin no more runs this day, in UTC."""

    code = "daily_quota_exceeded"


class Unavailable(TimeballError):
    """The store, the object storage or the server cannot do this now: it does not answer, takes too long, is stopping
    or lacks a resource. Acknowledged changes are safe. A client may try again after `retry_after` seconds."""

    code = "unavailable"

    def __init__(self, detail: str, retry_after: float = 1.0) -> None:
        super().__init__(detail)
        self.retry_after = retry_after
