"""Single values, as both databases can store them."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from timeball.domain.instant import MAX, Micros
from timeball.domain.run.lifecycle import Failure

LARGEST: Final = 2**63 - 1
_encode = msgspec.json.Encoder().encode


def plain(text: str) -> str:
    """Return text that both databases accept: without NUL, which PostgreSQL refuses, and without lone surrogates."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def bounded(instant: Micros | None) -> Micros | None:
    """Return an instant that a worker reported, limited to what can be stored."""
    return instant if instant is None else min(max(instant, 0), MAX)


def fits(number: int) -> bool:
    """True if a number from a request is not negative and fits into a 64-bit column of the database."""
    return 0 <= number <= LARGEST


def as_json(value: Any) -> str:
    return _encode(value).decode()


def failure_json(failure: Failure | None) -> str | None:
    """Encode a failure. Characters that cannot be encoded are replaced: otherwise the end of the attempt could not be
    stored, and the run would never end."""
    if failure is None:
        return None
    try:
        return as_json(failure)
    except UnicodeEncodeError:
        names = tuple(map(plain, failure.exceptions))
        return as_json(replace(failure, kind=plain(failure.kind), message=plain(failure.message), exceptions=names))
