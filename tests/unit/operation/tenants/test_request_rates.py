"""Limits of the rates of requests, per tenant and per key."""

from typing import Any

import pytest

from timeball.domain.identity.caller import Caller
from timeball.domain.instant import SECOND
from timeball.domain.tenant import TenantLimits
from timeball.operation.known_limits import KnownLimits
from timeball.operation.tenants import request_rates
from timeball.operation.tenants.request_rates import RequestRates
from timeball.system import SystemClock


class SetClock(SystemClock):
    time = 1_000 * SECOND

    def monotonic(self) -> int:
        return self.time


class House:
    def __init__(self) -> None:
        self.clock = SetClock()
        self.limits = KnownLimits()
        self.rates = RequestRates(self.limits, self.clock)

    def limit(self, **limits: Any) -> None:
        self.limits.note("acme", TenantLimits(**limits))

    def ask(self, key: str = "k_1", tenant: str = "acme") -> bool:
        """Send a request; return True if it is not refused."""
        caller = Caller(tenant=tenant, role="admin", kind="key", credential_id=key, key_id=key, name=key)
        return self.rates.take(caller)[1] is None

    def count(self, key: str = "k_1", most: int = 100) -> int:
        """Return how many requests at once are not refused."""
        return sum(self.ask(key) for _ in range(most))


@pytest.fixture
def house() -> House:
    return House()


def test_a_burst_is_followed_by_the_rate(house: House) -> None:
    house.limit(requests_per_second=2, request_burst=5)
    assert house.count() == 5
    house.clock.time += SECOND // 2 - 1
    assert house.count() == 0
    house.clock.time += 1
    assert house.count() == 1
    house.clock.time += 3_600 * SECOND
    assert house.count() == 5


@pytest.mark.parametrize(("per_second", "burst"), [(0.01, 1), (1, 1), (2.5, 3), (100, 100)])
def test_the_default_burst_is_that_of_a_second(house: House, per_second: float, burst: int) -> None:
    house.limit(requests_per_second=per_second)
    assert house.count(most=200) == burst


def test_no_rate_is_exceeded_in_the_long_run(house: House) -> None:
    """Also if a token takes no whole number of microseconds."""
    house.limit(requests_per_second=7, request_burst=2)
    passed = 0
    for _ in range(10_000):
        house.clock.time += SECOND // 100
        passed += house.ask()
    assert 690 <= passed <= 702


def test_keys_of_a_tenant_share_its_rate(house: House) -> None:
    house.limit(requests_per_second=1, request_burst=4)
    assert [house.ask(f"k_{n}") for n in range(6)] == [True] * 4 + [False] * 2
    assert house.ask(tenant="other")


def test_a_key_beyond_its_own_rate_takes_nothing_of_its_tenant(house: House) -> None:
    house.limit(
        requests_per_second=1, request_burst=5, requests_per_second_per_key=1, request_burst_per_key=2
    )  # fmt: skip
    assert house.count("k_1") == 2
    assert house.count("k_2") == 2
    assert house.count("k_3") == 1


def test_new_limits_hold_from_the_next_request_on(house: House) -> None:
    house.limit(requests_per_second=0.01, request_burst=100)
    assert house.count() == 100
    house.limit(requests_per_second=1, request_burst=1)
    assert house.count() == 0
    house.clock.time += SECOND
    assert house.count() == 1
    house.limit()
    assert house.count() == 100


def test_a_refusal_names_the_wait_and_all_limits_that_apply(house: House) -> None:
    house.limit(requests_per_second=0.1, request_burst=1, requests_per_second_per_key=0.2, request_burst_per_key=3)
    caller = Caller(tenant="acme", role="admin", kind="session", credential_id="s_1", key_id="k_1", name="n")
    states, refused = house.rates.take(caller)
    assert refused is None
    assert [(each.counted, each.left, each.is_full_in) for each in states] == [
        ("key", 2, 5 * SECOND),
        ("tenant", 0, 10 * SECOND),
    ]
    house.clock.time += SECOND // 2
    states, refused = house.rates.take(caller)
    assert refused is not None
    assert (refused.retry_after, refused.code) == (10, "rate_limited")
    assert [(each.counted, each.left) for each in states] == [("key", 2), ("tenant", 0)]


def test_tenants_without_a_rate_have_no_state(house: House) -> None:
    house.limit(jobs=5)
    caller = Caller(tenant="acme", role="admin", kind="key", credential_id="k_1", name="n")
    assert house.rates.take(caller) == ([], None)


def test_many_keys_take_bounded_memory_and_do_not_refill_their_tenant(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_rates, "MAX_KEYS", 3)
    house.limit(requests_per_second=0.01, request_burst=8, requests_per_second_per_key=0.01, request_burst_per_key=1)
    assert sum(house.ask(f"k_{n}") for n in range(20)) == 8
    assert len(house.rates._spent["key"]) == 3
