"""Properties of the address policy, for all addresses and lists: against `ipaddress`, and against a slow rule."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from hypothesis import example, given
from hypothesis import strategies as st

from timeball.domain.network.address_lists import AddressLists, parse_range
from timeball.domain.network.address_policy import AddressPolicy, policy_of

OTHERS = AddressPolicy()
V4 = st.integers(0, 2**32 - 1).map(IPv4Address)
V6 = st.integers(0, 2**128 - 1).map(IPv6Address)
GLOBAL_V6 = st.integers(0x2000 << 112, (0x4000 << 112) - 1).map(IPv6Address)
NEAR_V4 = st.tuples(
    st.sampled_from(
        ["10.0.0.0", "127.0.0.0", "172.16.0.0", "172.32.0.0", "192.168.0.0", "169.254.0.0", "100.64.0.0", "0.0.0.0"]
    ),
    st.integers(-2, 2**16),
).map(lambda each: IPv4Address((int(IPv4Address(each[0])) + each[1]) % 2**32))
ADDRESSES = V4 | V6 | GLOBAL_V6 | NEAR_V4
CARRIERS = {
    "mapped": lambda v4: int(v4) | 0xFFFF << 32,
    "compatible": int,
    "translated": lambda v4: int(v4) | 0xFFFF << 48,
    "NAT64": lambda v4: int(v4) | 0x64FF9B << 96,
    "local-use NAT64": lambda v4: int(v4) | 0x64FF9B0001 << 80,
    "6to4": lambda v4: 0x2002 << 112 | int(v4) << 80 | 1,
    "Teredo": lambda v4: 0x20010000 << 96 | 0x5DB8D70E << 64 | int(v4) ^ 0xFFFFFFFF,
    "Teredo server": lambda v4: 0x20010000 << 96 | int(v4) << 64 | 1,
    "ISATAP": lambda v4: 0x26001234 << 96 | 0x5EFE << 32 | int(v4),
    "global ISATAP": lambda v4: 0x26001234 << 96 | 0x02005EFE << 32 | int(v4),
}
RANGES = st.builds(
    lambda address, length: str(ip_network((address, min(length, address.max_prefixlen)), strict=False)),
    ADDRESSES,
    st.integers(0, 128),
)
LISTS = st.builds(
    AddressLists, allow=st.lists(RANGES, max_size=4).map(tuple), deny=st.lists(RANGES, max_size=4).map(tuple)
)


@given(ADDRESSES)
@example(IPv4Address("168.63.129.16"))
def test_what_is_permitted_is_global_and_no_multicast(address: IPv4Address | IPv6Address) -> None:
    """The policy is stricter than `is_global`, never laxer, but for NAT64, which is judged by the IPv4 address."""
    if OTHERS.refusal(str(address)) is None and not (address.version == 6 and int(address) >> 32 == 0x64FF9B << 64):
        assert address.is_global
        assert not address.is_multicast
        assert not address.is_reserved


@given(V4)
def test_global_ipv4_addresses_are_permitted(address: IPv4Address) -> None:
    known = {"168.63.129.16", "192.0.0.9", "192.0.0.10"}
    relays = address in ip_network("192.88.99.0/24")
    if address.is_global and not address.is_multicast and str(address) not in known and not relays:
        assert OTHERS.refusal(str(address)) is None


@given(V4 | NEAR_V4, st.sampled_from(sorted(CARRIERS)))
def test_a_refused_ipv4_address_is_refused_in_every_ipv6_form(address: IPv4Address, carrier: str) -> None:
    carried = IPv6Address(CARRIERS[carrier](address))
    if int(carried) > 1 and OTHERS.refusal(str(address)) is not None:
        assert OTHERS.refusal(str(carried)) is not None


@given(V4, st.sampled_from(sorted(CARRIERS)), st.integers(8, 32))
def test_a_denied_ipv4_range_is_denied_in_every_ipv6_form(address: IPv4Address, carrier: str, length: int) -> None:
    """Also for the default tenant, to which no other address is refused."""
    denied = AddressLists(deny=(str(ip_network((address, length), strict=False)),))
    policy = policy_of(denied, is_default=True)
    carried = IPv6Address(CARRIERS[carrier](address))
    assert policy is not None
    assert policy.refusal(str(address)) is not None
    assert int(carried) <= 1 or policy.refusal(str(carried)) is not None


@given(ADDRESSES, LISTS)
def test_the_most_specific_range_decides(address: IPv4Address | IPv6Address, lists: AddressLists) -> None:
    """By the slow rule, for addresses that carry no other one."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    judged = mapped or address
    if judged.version == 6 and (_carries_v4(judged) or int(judged) <= 1):
        return
    matching = [
        (parse_range(text).prefixlen, refuses)
        for refuses, ranges in ((True, lists.deny), (False, lists.allow))
        for text in ranges
        if parse_range(text).version == judged.version and judged in parse_range(text)
    ]
    longest = max((length for length, _ in matching), default=-1)
    denied = (longest, True) in matching
    default = policy_of(lists, is_default=True)
    assert (default is not None and default.refusal(str(address)) is not None) == denied
    own = AddressPolicy(lists).refusal(str(address))
    special = OTHERS.refusal(str(address))
    if denied:
        assert own is not None
    elif special is not None and longest < parse_range(special.range).prefixlen:
        assert own == special
    else:
        assert own is None


@given(ADDRESSES, LISTS)
def test_no_list_of_another_tenant_opens_more_than_it_names(
    address: IPv4Address | IPv6Address, lists: AddressLists
) -> None:
    """An address that is refused by default is permitted only inside an allowed range."""
    if OTHERS.refusal(str(address)) is not None and AddressPolicy(lists).refusal(str(address)) is None:
        assert lists.allow


@given(ADDRESSES)
def test_the_default_tenant_without_lists_has_no_policy_and_its_allow_list_refuses_nothing(
    address: IPv4Address | IPv6Address,
) -> None:
    assert policy_of(AddressLists(), is_default=True) is None
    policy = policy_of(AddressLists(allow=("10.0.0.0/8",)), is_default=True)
    assert policy is not None
    assert policy.refusal(str(address)) is None


@given(st.text(alphabet="0123456789abcdefx:.%", max_size=45))
def test_what_the_system_reads_as_an_address_is_judged_as_the_same_address(text: str) -> None:
    """Or refused: a text that only one of them can read gets no connection."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            packed = socket.inet_pton(family, text)
        except OSError:
            continue
        try:
            assert ip_address(text).packed == packed
        except ValueError:
            assert OTHERS.refusal(text) is not None


def _carries_v4(address: IPv4Address | IPv6Address) -> bool:
    number = int(address)
    return (
        number >> 32 in (0, 0xFFFF << 16, 0x64FF9B << 64)
        or number >> 80 == 0x64FF9B0001
        or number >> 112 == 0x2002
        or number >> 96 == 0x20010000
        or number >> 32 & 0xFFFFFFFF in (0x5EFE, 0x02005EFE)
    )
