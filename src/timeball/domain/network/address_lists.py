"""The address ranges that a tenant's limits name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta, Struct

from timeball.domain.errors import Invalid

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

MAX_RANGES: Final = 100
"""Maximum number of ranges in a list. Each answer to a worker has the lists of its tenants."""

AddressRange = Annotated[str, Meta(max_length=50)]
"""An address, such as `10.1.2.3`, or a range, such as `10.1.0.0/16` or `fd00:1::/32`."""
AddressRanges = Annotated[tuple[AddressRange, ...], Meta(max_length=MAX_RANGES)]


class AddressLists(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The ranges to which the HTTP jobs of a tenant may connect, and those to which they may not. The most specific
    range that contains an address decides."""

    allow: AddressRanges = ()
    deny: AddressRanges = ()


NO_LISTS: Final = AddressLists()


def parse_range(text: str) -> IPv4Network | IPv6Network:
    """Return a range. An IPv4-mapped range is the IPv4 range itself. Raise `ValueError` if it cannot be parsed."""
    import ipaddress  # here, because most commands do not need it

    network = ipaddress.ip_network(text)
    mapped = network.network_address.ipv4_mapped if isinstance(network, ipaddress.IPv6Network) else None
    if mapped is None or network.prefixlen < 96:
        return network
    return ipaddress.IPv4Network((mapped, network.prefixlen - 96))


def check_ranges(ranges: AddressRanges, pointer: str) -> None:
    """Raise `Invalid` if a range cannot be parsed."""
    for place, text in enumerate(ranges):
        try:
            parse_range(text)
        except ValueError as error:
            raise Invalid(f"{error}; write it like 10.1.2.3 or 10.1.0.0/16", f"{pointer}/{place}") from None
