"""Which headers an HTTP job may set, and which of them go along to another origin.

HTTP calls of all jobs share connections. A header that says how a message is framed, or that belongs to the connection
and not to the request, would let one job decide where the answer of another begins; so no attempt sends one.

`Host` may be set, to one `host` or `host:port`: it is how a job reaches a virtual host at a certain address, and it
frames nothing. `User-Agent`, `Idempotency-Key` and `traceparent` are Timeball's defaults, and a job may replace them.
`X-Timeball-*` says which attempt calls: targets rely on the fencing token there, so no job sets it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

CONNECTION_HEADERS: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Those that frame a message or belong to one connection."""
IDENTITY_PREFIX: Final = "x-timeball-"

_HOST: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::[0-9]{1,5})?", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_CREDENTIAL_NAME: Final = re.compile(
    r"auth|cookie|token|secret|signature|passw|credential|session|jwt|csrf|xsrf|(?:^|[-_])key|apikey", re.IGNORECASE
)
_CREDENTIAL_VALUE: Final = re.compile(r"\s*(?:bearer|basic|digest|negotiate|token|apikey)\s", re.IGNORECASE)
_NO_CREDENTIAL: Final = "idempotency-key"


class HeaderFault(Struct, frozen=True):
    name: str
    detail: str


def unsendable(headers: Mapping[str, str]) -> HeaderFault | None:
    """The first header that no attempt may send, also of a job that was stored before this rule."""
    seen: set[str] = set()
    for name, value in headers.items():
        lower = name.lower()
        if lower in CONNECTION_HEADERS:
            return HeaderFault(name, f"the header {name!r} belongs to the connection, which jobs share; leave it out")
        if lower == "host" and not _HOST.fullmatch(value):
            return HeaderFault(name, f"the header {name!r} must be one host or host:port, not {value[:100]!r}")
        if _CONTROL.search(value):
            return HeaderFault(name, f"the value of the header {name!r} has a control character in it")
        if lower in seen:
            return HeaderFault(name, f"the header {name!r} is given twice; join its values with a comma")
        seen.add(lower)
    return None


def refused(headers: Mapping[str, str]) -> HeaderFault | None:
    """The first header that a job may not be given."""
    for name in headers:
        if name.lower().startswith(IDENTITY_PREFIX):
            return HeaderFault(name, f"the header {name!r} is set by Timeball for every attempt; leave it out")
    return unsendable(headers)


def for_another_origin(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of a job without those that look like credentials, or that name the host it meant to call."""
    return {
        name: value for name, value in headers.items() if name.lower() != "host" and not _is_credential(name, value)
    }


def _is_credential(name: str, value: str) -> bool:
    if name.lower() == _NO_CREDENTIAL:
        return False
    return _CREDENTIAL_NAME.search(name) is not None or _CREDENTIAL_VALUE.match(value) is not None
