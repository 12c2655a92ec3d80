"""The address policy by example. `tests/properties/test_address_policy.py` has what holds for all addresses."""

from __future__ import annotations

import pytest

from timeball.domain.errors import Invalid
from timeball.domain.network.address_lists import AddressLists
from timeball.domain.network.address_policy import AddressPolicy, policy_of
from timeball.domain.tenant import DEFAULT_TENANT, NO_LIMITS, TenantLimits, check_limits

PUBLIC = ("93.184.215.14", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::93.184.215.14")


def refusal(address: str, *, allow: tuple[str, ...] = (), deny: tuple[str, ...] = (), tenant: str = "acme") -> str:
    policy = policy_of(AddressLists(allow=allow, deny=deny), is_default=tenant == DEFAULT_TENANT)
    return "" if policy is None else str(policy.refusal(address) or "")


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_permitted(address: str) -> None:
    assert refusal(address) == ""


def test_the_most_specific_range_decides() -> None:
    assert refusal("10.1.2.3", allow=("10.1.0.0/16",)) == ""
    assert refusal("10.2.2.3", allow=("10.1.0.0/16",)) == "private (10.0.0.0/8)"
    denied = "the deny list of the tenant (10.1.2.0/24)"
    assert refusal("10.1.2.3", allow=("10.1.0.0/16",), deny=("10.1.2.0/24",)) == denied
    assert refusal("10.1.2.3", allow=("10.1.2.3",), deny=("10.1.2.0/24",)) == ""
    assert refusal("10.1.2.3", allow=("10.1.2.0/24",), deny=("10.1.2.0/24",)) == denied
    assert refusal("10.1.2.3", allow=("10.0.0.0/8",)) == ""


def test_a_wide_range_opens_nothing_that_is_refused_by_default() -> None:
    everything = ("0.0.0.0/0", "::/0")
    assert refusal("127.0.0.1", allow=everything) == "loopback (127.0.0.0/8)"
    assert refusal("::1", allow=everything) == "loopback (::1)"
    assert refusal("169.254.169.254", allow=("169.254.0.0/16",)) == "metadata of a cloud (169.254.169.254)"
    assert refusal("169.254.169.254", allow=("169.254.169.254",)) == ""
    assert refusal("fd00:ec2::254", allow=("fd00::/8",)) == "metadata of a cloud (fd00:ec2::/32)"


def test_a_tenant_may_be_limited_to_its_allow_list() -> None:
    lists = {"allow": ("93.184.215.0/24",), "deny": ("0.0.0.0/0", "::/0")}
    for tenant in ("acme", DEFAULT_TENANT):
        assert refusal("93.184.215.14", **lists, tenant=tenant) == ""
        assert refusal("1.1.1.1", **lists, tenant=tenant) == "the deny list of the tenant (0.0.0.0/0)"
        assert refusal("2606:4700::1111", **lists, tenant=tenant) == "the deny list of the tenant (::/0)"


def test_only_its_own_lists_refuse_an_address_to_the_default_tenant() -> None:
    assert policy_of(AddressLists(), is_default=True) is None
    deny = ("10.0.0.0/8",)
    for address in ("127.0.0.1", "::1", "169.254.169.254", "fe80::1%lo", "192.168.0.1"):
        assert refusal(address, deny=deny, tenant=DEFAULT_TENANT) == ""
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "::10.1.2.3", "64:ff9b::10.1.2.3", "2002:a01:203::1"):
        assert refusal(address, deny=deny, tenant=DEFAULT_TENANT) == "the deny list of the tenant (10.0.0.0/8)"


def test_both_addresses_have_to_be_permitted_if_one_carries_the_other() -> None:
    assert refusal("64:ff9b:1::10.0.0.1", allow=("64:ff9b:1::/48",)) == "private (10.0.0.0/8)"
    assert refusal("64:ff9b:1::10.0.0.1", allow=("10.0.0.0/8",)) == "local-use NAT64 (64:ff9b:1::/48)"
    assert refusal("64:ff9b:1::10.0.0.1", allow=("64:ff9b:1::/48", "10.0.0.0/8")) == ""


def test_a_range_may_be_written_as_ipv4_mapped() -> None:
    assert refusal("1.1.1.1", deny=("::ffff:1.1.1.0/120",)) == "the deny list of the tenant (::ffff:1.1.1.0/120)"
    assert refusal("::ffff:1.1.1.1", deny=("1.1.1.1",)) == "the deny list of the tenant (1.1.1.1)"


def test_a_text_that_is_no_address_is_refused() -> None:
    assert AddressPolicy().refusal("127.1") is not None
    assert AddressPolicy(refuses_special=False).refusal("") is not None


@pytest.mark.parametrize(
    "wrong", ["10.0.0.1/8", "10.0.0.0/33", "example.org", "", "10.0", "fe80::1%lo/64", "1.2.3.4:80"]
)
def test_a_range_that_cannot_be_parsed_is_refused(wrong: str) -> None:
    for limits, name in (
        (TenantLimits(allow_addresses=("10.0.0.0/8", wrong)), "allowAddresses"),
        (TenantLimits(deny_addresses=("10.0.0.0/8", wrong)), "denyAddresses"),
    ):
        with pytest.raises(Invalid) as refused:
            check_limits(limits)
        assert refused.value.problems[0].pointer == f"/limits/{name}/1"
    check_limits(NO_LIMITS)
