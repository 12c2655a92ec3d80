"""Counts and percentiles that can be added."""

import math
import random

import msgspec
import pytest

from timeball.domain.instant import DAY, MILLISECOND, SECOND
from timeball.domain.overview import tally
from timeball.domain.overview.tally import MAX_BUCKET, RunTally


def histogram(values: list[int]) -> dict[int, int]:
    found = RunTally()
    for value in values:
        found.count_late(tally.bucket_of(value))
    return found.late


@pytest.mark.parametrize("seed", range(20))
def test_a_percentile_is_at_most_nine_per_cent_off(seed: int) -> None:
    rng = random.Random(seed)
    values = sorted(int(math.exp(rng.uniform(math.log(MILLISECOND), math.log(DAY)))) for _ in range(500))
    for share, found in zip((0.5, 0.99), tally.percentiles(histogram(values), 0.5, 0.99), strict=True):
        exact = values[math.ceil(len(values) * share) - 1] / MILLISECOND
        assert found == pytest.approx(exact, rel=0.1)


def test_percentiles_of_nothing_and_of_one_run() -> None:
    assert tally.percentiles({}, 0.5, 0.99) == [None, None]
    assert tally.percentiles({0: 1}, 0.5, 0.99) == [0.5, 0.5]
    assert tally.percentiles(histogram([0, 0, 0, 2 * SECOND]), 0.5, 0.99) == [0.5, pytest.approx(2_000, rel=0.1)]


def test_buckets_grow_with_lateness_and_end() -> None:
    bounds = [tally.bucket_of(int(MILLISECOND * 2 ** (step / 8))) for step in range(400)]
    assert bounds == sorted(bounds)
    assert tally.bucket_of(0) == tally.bucket_of(MILLISECOND - 1) == 0
    assert tally.bucket_of(MILLISECOND) == 1
    assert tally.bucket_of(10**18) == MAX_BUCKET
    assert all(tally.milliseconds(at) < tally.milliseconds(at + 1) for at in range(MAX_BUCKET))


def test_tallies_add_up_in_any_order() -> None:
    rng = random.Random(1)
    parts = [RunTally({rng.choice("abc"): rng.randrange(9)}, {rng.randrange(5): rng.randrange(9)}) for _ in range(30)]
    one, other = RunTally(), RunTally()
    for part in parts:
        one.add(part)
    for part in reversed(parts):
        other.add(part)
    assert one == other
    assert sum(one.ends.values()) == sum(sum(part.ends.values()) for part in parts)


def test_a_tally_survives_as_json() -> None:
    whole = RunTally({"succeeded": 5, "missed": 2}, {0: 3, 17: 2})
    assert msgspec.json.decode(msgspec.json.encode(whole), type=RunTally) == whole
    assert msgspec.json.decode(b"{}", type=RunTally) == RunTally()


def test_fires_that_never_ran_are_not_finished_runs() -> None:
    found = RunTally({"succeeded": 6, "dead": 1, "failed": 1, "cancelled": 2, "skipped": 30, "missed": 40})
    assert found.finished == 10
    assert found.success_rate == 0.75
    assert RunTally({"cancelled": 3, "skipped": 1}).success_rate is None


def test_a_backfilled_fire_is_never_late_and_a_start_before_its_time_counts_as_punctual() -> None:
    assert tally.lateness("backfill", 0, 5) is None
    assert tally.lateness("schedule", 0, None) is None
    assert tally.lateness("schedule", 10, 5) == 0
    assert tally.lateness("catch_up", 10, 35) == 25
