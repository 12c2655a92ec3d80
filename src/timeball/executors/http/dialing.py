"""Opens connections for HTTP jobs. No other module of the executors connects to anything, so that every connection is
to an address that the tenant of the job may use.

The decision is about resolved addresses, in the same step in which the connection is made: a name that changes its
addresses afterwards changes nothing. A host is refused if one of its addresses is, because its owner decides which of
them a client uses.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Final

import aiohappyeyeballs
from aiohappyeyeballs import AddrInfoType
from msgspec import Struct

from timeball.domain.network.address_policy import AddressPolicy, AddressRule
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.lookups import ResolvedAddress

NEXT_ADDRESS_DELAY: Final = 0.25
"""Seconds without a connection after which the next address of a host is tried as well."""


class Egress(Struct, frozen=True, eq=False):
    """The way of a tenant's calls to their targets. Its connections serve no other egress."""

    tenant: str
    policy: AddressPolicy | None
    """None: every address is permitted."""


DEFAULT_EGRESS: Final = Egress(DEFAULT_TENANT, None)


class AddressRefused(Exception):
    """Raised if a tenant may not connect to an address of a host. Nothing was sent to any of its addresses."""

    def __init__(self, egress: Egress, host: str, address: str, rule: AddressRule) -> None:
        subject = f"the address {address}" if host == address else f"the address {address} of {host}"
        super().__init__(f"{subject} is refused: {rule}")
        self.egress = egress
        self.host = host
        self.address = address
        self.rule = rule

    def for_tenant(self) -> str:
        """Return the message that the tenant sees. Names are resolved with the name servers of the worker, which may
        know internal hosts. Their addresses are shown to the default tenant only."""
        if self.egress.tenant == DEFAULT_TENANT or _is_number(self.host):
            return str(self)
        return f"an address of {self.host} is refused: {self.rule}"


async def dial(egress: Egress, host: str, port: int, addresses: Sequence[ResolvedAddress]) -> socket.socket:
    """Connect to one of the addresses of a host. Raise `AddressRefused` if one of them is not permitted."""
    if egress.policy is not None:
        for each in addresses:
            if (rule := egress.policy.refusal(each.host)) is not None:
                raise AddressRefused(egress, host, each.host, rule)
    return await aiohappyeyeballs.start_connection(
        [_info(each, port) for each in addresses],
        happy_eyeballs_delay=NEXT_ADDRESS_DELAY,
        interleave=1,
        loop=asyncio.get_running_loop(),
    )


def _info(address: ResolvedAddress, port: int) -> AddrInfoType:
    place = (address.host, port, 0, 0) if address.family == socket.AF_INET6 else (address.host, port)
    return address.family, socket.SOCK_STREAM, address.proto, "", place


def _is_number(host: str) -> bool:
    """True if a host is an address in any notation, such as `0x7f.1`, so that no name server was asked."""
    try:
        return bool(socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST))
    except (OSError, ValueError):
        return False
