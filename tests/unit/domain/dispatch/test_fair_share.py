"""Tenants that wait at the same time get slots in the ratio of their weights."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from timeball.domain.dispatch.fair_share import FairShares, TenantShare


class Run(Struct, frozen=True):
    tenant: str
    number: int


def runs(**counts: int) -> list[Run]:
    return [Run(tenant, number) for tenant, count in counts.items() for number in range(count)]


def serve(fair: FairShares, waiting: Sequence[Run], slots: int) -> list[Run]:
    """One claim: the runs that get slots."""
    got = []
    for run in islice(fair.in_turn(waiting), slots):
        fair.charge(run.tenant, 1, lambda _: True)
        got.append(run)
    return got


def shares(weights: Mapping[str, float]) -> FairShares:
    fair = FairShares()
    fair.shares = {tenant: TenantShare(weight) for tenant, weight in weights.items()}
    return fair


def test_a_flood_of_one_tenant_lets_the_others_through() -> None:
    got = serve(FairShares(), runs(flood=1_000, quiet=3), 8)
    assert Counter(run.tenant for run in got) == {"flood": 5, "quiet": 3}
    assert [run.tenant for run in got[:6]].count("quiet") == 3


def test_the_order_within_a_tenant_stays() -> None:
    got = serve(FairShares(), runs(a=50, b=50), 60)
    for tenant in "ab":
        numbers = [run.number for run in got if run.tenant == tenant]
        assert numbers == list(range(30))


def test_claims_of_one_slot_are_as_fair_as_one_claim_of_many() -> None:
    fair = shares({"a": 3, "b": 1})
    got = Counter(serve(fair, runs(a=10, b=10), 1)[0].tenant for _ in range(400))
    assert got == {"a": 300, "b": 100}


def test_slots_of_a_worker_that_serves_one_tenant_do_not_change_the_shares_of_others() -> None:
    fair = shares({"a": 3, "b": 1})
    got: Counter[str] = Counter()
    for _ in range(400):
        serve(fair, runs(own=10), 5)
        got += Counter(run.tenant for run in serve(fair, runs(b=10, a=10), 1))
    assert got == {"a": 300, "b": 100}


def test_so_do_those_of_a_claim_for_several_workers() -> None:
    fair = shares({"a": 3, "b": 1})
    got: Counter[str] = Counter()
    for _ in range(400):
        free = {"shared": 1, "own": 5}
        for run in fair.in_turn(runs(b=10, a=10, own=10)):
            worker = "own" if run.tenant == "own" else "shared"
            if free[worker] > 0:
                free[worker] -= 1
                fair.charge(run.tenant, 1, lambda tenant, worker=worker: (tenant == "own") is (worker == "own"))  # type: ignore[misc]
                got[run.tenant] += 1
    assert got == {"a": 300, "b": 100, "own": 2_000}


def test_a_tenant_that_comes_back_is_next_but_gets_nothing_for_the_time_that_it_was_away() -> None:
    fair = FairShares()
    for _ in range(100):
        serve(fair, runs(a=10, c=10), 1)
    got = [serve(fair, runs(a=10, b=10, c=10), 1)[0].tenant for _ in range(30)]
    assert "b" in got[:2]
    assert Counter(got)["b"] in range(10, 12)


def test_a_run_that_gets_no_slot_costs_its_tenant_nothing() -> None:
    fair = FairShares()
    for run in fair.in_turn(runs(unfit=20, a=20)):
        if run.tenant == "a":
            fair.charge("a", 1, lambda _: True)
    assert serve(fair, runs(a=1, unfit=1), 1)[0].tenant == "unfit"


def test_a_tenant_that_waits_alone_is_charged_nothing_and_keeps_its_order() -> None:
    fair = FairShares()
    assert [run.number for run in fair.in_turn(runs(a=5))] == [0, 1, 2, 3, 4]


@given(
    st.dictionaries(st.sampled_from("abcde"), st.sampled_from([0.5, 1, 2, 5]), min_size=2),
    st.lists(st.integers(1, 7), min_size=30, max_size=60),
)
def test_no_tenant_is_ever_more_than_one_run_behind_its_share(weights: dict[str, float], claims: list[int]) -> None:
    """I17: whatever the sizes of the claims."""
    fair = shares(weights)
    got: Counter[str] = Counter()
    for slots in claims:
        got.update(run.tenant for run in serve(fair, runs(**dict.fromkeys(weights, 10)), slots))
    passed = [got[tenant] / weight for tenant, weight in weights.items()]
    assert max(passed) - min(passed) <= 1 / min(weights.values()) + 1e-6


def test_a_claim_reads_enough_runs_of_each_tenant_and_not_the_whole_flood() -> None:
    fair = shares({"a": 3})
    assert fair.quota(100, ["a"]) == 100
    assert fair.quota(1_000, [*"abcdefghij"]) == 501
    assert fair.quota(1, [*"abcdefghij"]) == 1
