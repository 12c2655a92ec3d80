"""Everything that can go wrong, as one tree.

    TimeballError
    ├── Invalid               a value is wrong; carries one Problem per wrong value
    │   └── InvalidSchedule   ... and the value is a schedule
    ├── IdempotencyMismatch   the key was used before, with another body
    ├── Unauthorized          no key, or one nobody knows
    ├── Forbidden             a known key without the permission
    ├── NotFound              no such thing (or not yours)
    ├── Conflict              the thing is not in a state that allows this
    ├── PreconditionFailed    If-Match named another version
    ├── TooLarge              a body or batch over its limit
    ├── TooManyRequests       a limit was reached; try later
    └── Unavailable           the store does not answer; nothing acknowledged is lost

Errors carry data, not prose only; `api/problems.py` maps each class to a status.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Problem:
    """One wrong value: where it is (a JSON pointer), and what is wrong with it, for a person."""

    pointer: str
    detail: str


class TimeballError(Exception):
    """The root; `code` is stable and part of the API."""

    code: ClassVar[str] = "error"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Invalid(TimeballError):
    """One or more values are wrong. Nothing was changed."""

    code = "invalid"

    def __init__(self, detail: str, pointer: str = "", problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(detail)
        self.problems = problems or (Problem(pointer, detail),)


class InvalidSchedule(Invalid):
    """A cron expression, interval, date or time zone that means nothing."""

    code = "invalid_schedule"


class IdempotencyMismatch(TimeballError):
    """The idempotency key belongs to an earlier request with another body."""

    code = "idempotency_mismatch"


class Unauthorized(TimeballError):
    """No key came with the request, or nobody knows it."""

    code = "unauthorized"


class Forbidden(TimeballError):
    """The key is known; what it asks for is not its to ask."""

    code = "forbidden"


class NotFound(TimeballError):
    """No such thing, or not one that this key may see."""

    code = "not_found"

    def __init__(self, what: str, ident: str) -> None:
        super().__init__(f"there is no {what} {ident!r}")
        self.what = what
        self.ident = ident


class Conflict(TimeballError):
    """The thing exists, but its state does not allow this."""

    code = "conflict"


class PreconditionFailed(TimeballError):
    """If-Match named a version that is not the current one."""

    code = "precondition_failed"


class TooLarge(TimeballError):
    """A body, batch or value is over its limit."""

    code = "too_large"


class TooManyRequests(TimeballError):
    """A limit was reached; `retry_after` says when to come back, in seconds."""

    code = "too_many_requests"

    def __init__(self, detail: str, retry_after: float = 1.0) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class Unavailable(TimeballError):
    """The store does not answer. What was acknowledged is safe; try again in `retry_after` seconds."""

    code = "unavailable"

    def __init__(self, detail: str, retry_after: float = 1.0) -> None:
        super().__init__(detail)
        self.retry_after = retry_after
