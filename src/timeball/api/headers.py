"""Request headers that decide something, of which a request may have one only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from timeball.jobspec.errors import Malformed

SINGLE_HEADERS: Final = frozenset(
    {
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"host",
        b"idempotency-key",
        b"if-match",
        b"transfer-encoding",
    }
)
"""With two of one of these, a proxy in front and the server could each believe another one."""


class RepeatedHeader(Malformed):
    """A request with two of a header that decides something."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the request has more than one {name} header; send it once")


def find_repeated(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The first of the single headers that is there twice. Names are in lower case."""
    seen: set[bytes] = set()
    for name, _ in headers:
        if name in SINGLE_HEADERS and name in seen:
            return name.decode("ascii")
        seen.add(name)
    return None
