"""When the speed gate (`make compare`) passes, fails, or requests more turns."""

import pytest

from bench.comparison import (
    AGAINST_BASE,
    AGAINST_PARENT,
    MAX_TURNS,
    Lateness,
    Sample,
    Throughput,
    Verdict,
    median_ratio,
)

BASE = Sample(rate=1_000.0, cpu=10.0)


def turns(rates: list[float], cpus: list[float]) -> Throughput:
    """Each turn's ratios of rate and of CPU per job."""
    return Throughput([(Sample(1_000 * r, 10 * c), BASE) for r, c in zip(rates, cpus, strict=True)])


def same(ratio: float, count: int = 9) -> list[float]:
    return [ratio] * count


def wide(centre: float, spread: float, count: int = 9) -> list[float]:
    """Ratios evenly around a centre."""
    return [centre + spread * (2 * index / (count - 1) - 1) for index in range(count)]


@pytest.mark.parametrize(("count", "outside"), [(5, 0), (9, 1), (15, 3), (31, 10)])
def test_the_interval_covers_the_median_with_90_percent(count: int, outside: int) -> None:
    found = median_ratio([float(number) for number in range(count)])
    assert (found.low, found.high, found.turns) == (outside, count - 1 - outside, count)


@pytest.mark.parametrize(
    ("rates", "cpus", "verdict"),
    [
        (same(1.0), same(1.0), Verdict.PASSED),
        (same(0.97), same(1.03), Verdict.PASSED),
        (same(1.5), same(0.5), Verdict.PASSED),
        (same(0.96), same(1.0), Verdict.FAILED),
        (same(1.0), same(1.04), Verdict.FAILED),
        # The median misses its bound, but the narrow interval contains 1: equal.
        (same(1.0), [0.99, 0.99, 0.99, 1.0, 1.035, 1.035, 1.035, 1.035, 1.035], Verdict.PASSED),
        # The wide interval contains 1: noise, which more turns may settle.
        (same(1.0), wide(1.05, 0.10), Verdict.UNDECIDED),
        (wide(0.95, 0.10), same(1.0), Verdict.UNDECIDED),
        # A wide interval that excludes 1 is a loss however wide it is.
        (wide(0.80, 0.10), same(1.0), Verdict.FAILED),
    ],
)
def test_a_commit_passes_if_rate_and_cpu_keep_their_bounds_or_are_shown_to_be_equal(
    rates: list[float], cpus: list[float], verdict: Verdict
) -> None:
    assert turns(rates, cpus).verdict(AGAINST_PARENT) is verdict


def test_after_the_last_turn_an_undecided_rate_passes_only_with_a_decided_cpu() -> None:
    noisy_rate, noisy_cpu = wide(0.95, 0.30, MAX_TURNS), wide(1.05, 0.30, MAX_TURNS)
    equal = same(1.0, MAX_TURNS)
    assert turns(noisy_rate, equal).verdict(AGAINST_PARENT, last=True) is Verdict.PASSED
    assert turns(equal, noisy_cpu).verdict(AGAINST_PARENT, last=True) is Verdict.FAILED
    assert turns(noisy_rate, noisy_cpu).verdict(AGAINST_PARENT, last=True) is Verdict.FAILED


def test_small_losses_of_many_commits_may_not_add_up() -> None:
    assert turns(same(0.95), same(1.05)).verdict(AGAINST_BASE) is Verdict.PASSED
    assert turns(same(0.94), same(1.0)).verdict(AGAINST_BASE) is Verdict.FAILED


@pytest.mark.parametrize(
    ("new", "base", "verdict"),
    [
        (3.0, 2.0, Verdict.PASSED),  # one millisecond more
        (3.1, 2.0, Verdict.FAILED),
        (22.0, 20.0, Verdict.PASSED),  # a tenth more
        (22.5, 20.0, Verdict.FAILED),
    ],
)
def test_lateness_may_grow_by_a_factor_or_by_milliseconds(new: float, base: float, verdict: Verdict) -> None:
    assert Lateness([(new, base)] * 9, max_factor=1.1, max_more_ms=1.0).verdict is verdict
