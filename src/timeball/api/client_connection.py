"""The connection of a request, as the routes see it, and the address of its client."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final, Protocol

FORWARDED: Final = b"x-forwarded-for"
MAX_HOPS: Final = 20
"""Maximum number of proxies that one request passes."""
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class ClientConnection(Protocol):
    """The connection of a request."""

    def admit(self) -> None:
        """Mark the connection as known, because a request on it had a valid credential. The stricter limits for
        connections without one no longer apply."""
        ...

    def is_last_answer(self) -> bool:
        """Count an answer. Return True if the connection closes after it."""
        ...

    def drop(self) -> None:
        """Abort the connection at once."""
        ...

    def write(self, data: bytes, limit: int) -> bool:
        """Write bytes of an answer in progress past the application server. Return False, and write nothing, if more
        than `limit` bytes wait for the client, or if the connection is closing."""
        ...

    async def wait_for_turn(self) -> None:
        """Wait until the server may answer this connection. A connection on which a request had a valid credential does
        not wait; of all others, one gets its answer per turn of the event loop."""
        ...


class TrustedProxies:
    """Finds the address of a client behind proxies, for the audit log.

    A proxy adds the address of its own client at the end of `X-Forwarded-For`. A client may send that header as well,
    so only what trusted proxies have added counts: addresses are read from the right, as long as the sender is trusted.
    """

    def __init__(self, networks: Sequence[str] = ()) -> None:
        """`networks` has addresses and ranges of proxies. Without any, the header is not read."""
        self._networks = [ipaddress.ip_network(each) for each in networks]

    def client(self, sender: str, forwarded: bytes | None) -> str:
        """Return the address of the client of a request that came from `sender`: the last address in `forwarded` (the
        header `X-Forwarded-For`) that no trusted proxy has. If a trusted proxy added a text that is no address, return
        the address of that proxy."""
        if forwarded is None or not self._networks or not self._trusts(_address(sender)):
            return sender
        client = sender
        for hop in reversed(forwarded.decode("latin-1").rsplit(",", MAX_HOPS)[-MAX_HOPS:]):
            found = _address(hop)
            if found is None:
                break
            client = str(found)
            if not self._trusts(found):
                break
        return client

    def _trusts(self, address: _Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)


def _address(text: str) -> _Address | None:
    """Read an address, which may have a port behind it."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return found if mapped is None else mapped
