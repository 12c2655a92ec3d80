"""Rules for the headers of HTTP jobs: which headers a job may set, and which are sent to another origin on a redirect.

The HTTP calls of all jobs share connections. A header that frames a message, or that belongs to the connection and not
to the request, would let one job decide where the response to another job begins. No attempt sends such a header.

`Host` may be set to one `host` or `host:port`: a job needs it to reach a virtual host at a certain address, and it does
not frame a message. `User-Agent`, `Idempotency-Key` and `traceparent` are defaults of Timeball that a job may replace.
`X-Timeball-*` identifies the attempt that calls. Targets rely on the fencing token in it, so no job may set it.
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
"""Headers that frame a message or belong to one connection, in lower case."""
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
    """Return why no attempt may send these headers: the name of the first bad header, and what is wrong with its name
    or value. None if all may be sent. Workers call this as well, for jobs that were stored before the rule existed."""
    seen: set[str] = set()
    for name, value in headers.items():
        lower = name.lower()
        if lower in CONNECTION_HEADERS:
            return HeaderFault(name, f"the header {name!r} belongs to the connection, which jobs share; remove it")
        if lower == "host" and not _HOST.fullmatch(value):
            return HeaderFault(name, f"the header {name!r} must be one host or host:port, not {value[:100]!r}")
        if _CONTROL.search(value):
            return HeaderFault(name, f"the value of the header {name!r} contains a control character")
        if lower in seen:
            return HeaderFault(name, f"the header {name!r} is given twice; join its values with a comma")
        seen.add(lower)
    return None


def refused(headers: Mapping[str, str]) -> HeaderFault | None:
    """Return why a job may not have these headers: the name of one bad header, and what is wrong with its name or
    value. None if the job may set all of them."""
    for name in headers:
        if name.lower().startswith(IDENTITY_PREFIX):
            return HeaderFault(name, f"the header {name!r} is set by Timeball for every attempt; remove it")
    return unsendable(headers)


def for_another_origin(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a job for a redirect to another origin: without `Host`, and without headers that look like
    credentials."""
    return {
        name: value for name, value in headers.items() if name.lower() != "host" and not _is_credential(name, value)
    }


def _is_credential(name: str, value: str) -> bool:
    if name.lower() == _NO_CREDENTIAL:
        return False
    return _CREDENTIAL_NAME.search(name) is not None or _CREDENTIAL_VALUE.match(value) is not None
