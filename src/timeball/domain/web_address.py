"""The address of a server as a browser sees it: its origin, and the path below which the server is reachable."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

_HOST_AND_PORT: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:/?#@\s]+)(?::(\d{1,5}))?", re.ASCII)
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class WebAddress:
    scheme: str
    host: str
    """The host name in lower case; an IPv6 address is in brackets."""
    port: int
    base_path: str = "/"
    """The path below which the server is reachable. It begins and ends with a slash."""

    @property
    def is_secure(self) -> bool:
        return self.scheme == "https"

    @property
    def origin(self) -> str:
        """Scheme, host and port, as browsers write them in the `Origin` header."""
        is_default = _DEFAULT_PORTS[self.scheme] == self.port
        return f"{self.scheme}://{self.host}" if is_default else f"{self.scheme}://{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.origin}{self.base_path}"


def parse_address(url: str) -> WebAddress:
    """Return the address of an http or https URL without user, query and fragment."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    path = parts.path.strip("/")
    return WebAddress(
        parts.scheme,
        f"[{host}]" if ":" in host else host,
        parts.port or _DEFAULT_PORTS[parts.scheme],
        f"/{path}/" if path else "/",
    )


def host_name(header: str) -> str | None:
    """Return the host in a `Host` header, in lower case and without the port; None if it is malformed."""
    found = _HOST_AND_PORT.fullmatch(header.lower())
    return None if found is None else found[1]


def is_loopback(host: str) -> bool:
    """True if a host names this machine: `localhost`, 127.0.0.0/8 in its usual form, or ::1, with or without brackets.

    Other spellings (`127.1`, `0x7f.1`, a trailing dot, a zone) do not count, because resolvers disagree about them.
    """
    import ipaddress  # here, because most commands do not need it

    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return address.is_loopback and "%" not in host and getattr(address, "ipv4_mapped", None) is None
