"""Request headers that may occur only once in a request."""

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
"""Names of headers that may occur only once in a request, in lower case. If one of these occurred twice, a proxy in
front of the server and the server itself could use different values."""


class RepeatedHeader(Malformed):
    """Raised for a request that repeats a header that may occur only once."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the request has more than one {name} header; send it once")


def find_repeated(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the name of the first header in `SINGLE_HEADERS` that occurs twice; None if there is none. The names in
    `headers` are in lower case."""
    seen: set[bytes] = set()
    for name, _ in headers:
        if name in SINGLE_HEADERS and name in seen:
            return name.decode("ascii")
        seen.add(name)
    return None
