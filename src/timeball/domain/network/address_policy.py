"""Decides to which addresses the HTTP jobs of a tenant may connect.

Every way to write an address leads to the number that is judged here: the caller resolves the host first, and connects
to the judged address only. An IPv6 address that carries an IPv4 address is permitted only if both are.

The most specific range that contains an address decides, as in a routing table. So `10.1.0.0/16` in the allow list
opens this network in spite of the refused `10.0.0.0/8`, and `0.0.0.0/0` opens no range that is refused by default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from msgspec import Struct

from timeball.domain.network.address_lists import NO_LISTS, AddressLists, parse_range

_SPECIAL: Final = {
    "this network": ("0.0.0.0/8",),
    "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
    "shared by carriers": ("100.64.0.0/10",),
    "loopback": ("127.0.0.0/8", "::1"),
    "link-local": ("169.254.0.0/16", "fe80::/10"),
    # Providers that differ: 192.0.0.192 Oracle, 168.63.129.16 Azure, 100.100.100.200 Alibaba, fd20:ce::254 Google.
    "metadata of a cloud": (
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "fd00:ec2::/32",
        "fd00:42::42",
        "fd20:ce::254",
    ),
    "of a protocol": ("192.0.0.0/24",),
    "for documentation": ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
    "6to4": ("192.88.99.0/24", "2002::/16"),
    "for benchmarks": ("198.18.0.0/15", "2001:2::/48"),
    "multicast": ("224.0.0.0/4", "ff00::/8"),
    "broadcast": ("255.255.255.255",),
    "reserved": ("240.0.0.0/4", "::/0", "2001::/23"),
    "unspecified": ("::",),
    "IPv4-compatible": ("::/96",),
    "Teredo": ("2001::/32",),
    "unique local": ("fc00::/7",),
    "site-local": ("fec0::/10",),
    "local-use NAT64": ("64:ff9b:1::/48",),
}
"""Ranges that are refused by default, by the words for their addresses."""
_PUBLIC: Final = ("2000::/3", "64:ff9b::/96")
"""Ranges inside of reserved ones that are not refused: global addresses, and the addresses with which networks without
IPv4 reach IPv4 hosts (NAT64)."""
_MAPPED: Final = 0xFFFF
_CARRIERS_96: Final = frozenset({0, 0xFFFF << 16, 0x64FF9B << 64})
"""The upper 96 bits of addresses that carry an IPv4 address: IPv4-compatible, IPv4-translated, NAT64."""
_LOCAL_NAT64: Final = 0x64FF9B0001
_6TO4: Final = 0x2002
_TEREDO: Final = 0x20010000
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})
_LOW: Final = 0xFFFFFFFF


class AddressRule(Struct, frozen=True):
    """A rule about the addresses of a range."""

    name: str
    """What the addresses of the range are, such as private ones, or which list of the tenant has the range."""
    range: str
    refuses: bool

    def __str__(self) -> str:
        return f"{self.name} ({self.range})"


class _Prefix(Struct, frozen=True):
    version: int
    bits: int
    """The bits that all addresses of the range share."""
    shift: int
    """Number of the other bits."""
    rule: AddressRule


class AddressPolicy:
    """The addresses that one tenant may connect to."""

    def __init__(self, lists: AddressLists = NO_LISTS, *, refuses_special: bool = True) -> None:
        denied = [AddressRule("the deny list of the tenant", text, True) for text in lists.deny]
        allowed = [AddressRule("the allow list of the tenant", text, False) for text in lists.allow]
        self._listed = _most_specific_first([*denied, *allowed])
        self._special = _SPECIAL_PREFIXES if refuses_special else ()

    def refusal(self, address: str) -> AddressRule | None:
        """Return the rule that refuses an address, which may have a scope; None: it is permitted."""
        try:
            parsed = ip_address(address)
        except ValueError:
            return _UNREADABLE
        for version, number in _forms(parsed):
            rule = self._refusal(version, number)
            if rule is not None:
                return rule
        return None

    def _refusal(self, version: int, number: int) -> AddressRule | None:
        listed = _first(self._listed, version, number)
        special = _first(self._special, version, number)
        if special is not None and special.rule.refuses and (listed is None or special.shift < listed.shift):
            return special.rule
        return listed.rule if listed is not None and listed.rule.refuses else None


def policy_of(lists: AddressLists, *, is_default: bool) -> AddressPolicy | None:
    """Return the policy of a tenant; None: it may connect to every address. The default tenant has the jobs of an
    installation without tenants, which call services of their own network, so only its lists refuse an address."""
    return None if is_default and lists == NO_LISTS else AddressPolicy(lists, refuses_special=not is_default)


def _forms(address: IPv4Address | IPv6Address) -> Iterator[tuple[int, int]]:
    """Yield the version and the number of an address, and those of each IPv4 address that it carries. Of an
    IPv4-mapped address, yield only the IPv4 address: it is another way to write that address."""
    number = int(address)
    if address.version == 4:
        yield 4, number
        return
    upper, low = number >> 32, number & _LOW
    if upper == _MAPPED:
        yield 4, low
        return
    yield 6, number
    # :: and ::1 carry no address
    if (upper in _CARRIERS_96 and number > 1) or number >> 80 == _LOCAL_NAT64 or (upper & _LOW) in _ISATAP:
        yield 4, low
    elif number >> 112 == _6TO4:
        yield 4, number >> 80 & _LOW
    elif number >> 96 == _TEREDO:  # its server, and its client with all bits inverted
        yield 4, number >> 64 & _LOW
        yield 4, low ^ _LOW


def _first(prefixes: Sequence[_Prefix], version: int, number: int) -> _Prefix | None:
    for prefix in prefixes:
        if prefix.version == version and number >> prefix.shift == prefix.bits:
            return prefix
    return None


def _most_specific_first(rules: Iterable[AddressRule]) -> tuple[_Prefix, ...]:
    """Return the ranges of the rules, the smallest range first. Rules with equally large ranges keep their order."""
    return tuple(sorted(map(_prefix, rules), key=lambda prefix: prefix.shift))


def _prefix(rule: AddressRule) -> _Prefix:
    network = parse_range(rule.range)
    shift = network.max_prefixlen - network.prefixlen
    return _Prefix(network.version, int(network.network_address) >> shift, shift, rule)


_UNREADABLE: Final = AddressRule("not an address", "", True)
_SPECIAL_PREFIXES: Final = _most_specific_first(
    [
        *(AddressRule(name, each, True) for name, ranges in _SPECIAL.items() for each in ranges),
        *(AddressRule("public", each, False) for each in _PUBLIC),
    ]
)
