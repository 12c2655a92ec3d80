"""Conversion of problem+json answers into the errors that the server raised."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from timeball.domain import errors
from timeball.domain.errors import Invalid, NotFound, TimeballError

_SIMPLE: Final[dict[str, type[TimeballError]]] = {
    kind.code: kind
    for kind in (
        errors.IdempotencyMismatch,
        errors.Unauthorized,
        errors.Forbidden,
        errors.QuotaExceeded,
        errors.Conflict,
        errors.PreconditionFailed,
        errors.TooLarge,
    )
}
_BY_STATUS: Final = {
    400: "invalid",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "invalid",
    409: "conflict",
    412: "precondition_failed",
    413: "too_large",
    415: "invalid",
    422: "invalid",
    429: "too_many_requests",
    502: "unavailable",
    503: "unavailable",
    504: "unavailable",
}
_LATER: Final[dict[str, type[errors.TooManyRequests]]] = {
    kind.code: kind for kind in (errors.TooManyRequests, errors.RateLimited, errors.DailyQuotaExceeded)
}
_KNOWN: Final = {*_SIMPLE, *_LATER, *_BY_STATUS.values(), "invalid_schedule"}
_NOT_FOUND = re.compile(r"there is no (?P<what>[^'\"]+) ['\"](?P<ident>.*?)['\"]")


class _Detail(Struct):
    pointer: str = ""
    detail: str = ""


class _Problem(Struct):
    title: str = ""
    detail: str = ""
    code: str = ""
    errors: list[_Detail] = []


_decode_problem = msgspec.json.Decoder(_Problem).decode


def from_answer(status: int, headers: Mapping[str, str], body: bytes) -> TimeballError:
    """Return the error for an answer with a status of 400 or above."""
    try:
        problem = _decode_problem(body)
    except msgspec.MsgspecError:
        # The answer is not from Timeball, but from a proxy or from another service at this address.
        problem = _Problem(detail=f"the server answered {status} without a reason; is this Timeball's address?")
    detail = problem.detail or problem.title or f"the server answered {status}"
    code = problem.code if problem.code in _KNOWN else _BY_STATUS.get(status, "")
    match code:
        case "invalid" | "invalid_schedule":
            kind = errors.InvalidSchedule if code == "invalid_schedule" else Invalid
            found = tuple(errors.WrongValue(item.pointer, item.detail) for item in problem.errors)
            return kind(detail, problems=found)
        case "not_found":
            return _not_found(detail)
        case _ if code in _LATER:
            return _LATER[code](detail, retry_after(headers) or 1.0)
        case "unavailable":
            return errors.Unavailable(detail, retry_after(headers) or 1.0)
        case _:
            return _SIMPLE.get(code, TimeballError)(detail)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the server asks the client to wait; None if it does not ask."""
    try:
        return max(0.0, float(headers["retry-after"]))
    except (KeyError, ValueError):
        return None


def _not_found(detail: str) -> NotFound:
    match = _NOT_FOUND.search(detail)
    error = NotFound(*match.group("what", "ident")) if match else NotFound("thing", "")
    error.detail = detail
    error.args = (detail,)
    return error
