"""Histograms count each observation once, in the first bucket whose bound it does not exceed."""

import tracemalloc

from timeball.domain.instant import MILLISECOND, SECOND
from timeball.domain.run.lateness import Lateness
from timeball.ports.metrics import DelayHistograms, Histogram, observe_delay


def test_an_observation_is_in_the_first_bucket_whose_bound_it_does_not_exceed() -> None:
    found = Histogram((1.0, 10.0))
    for value in (0.5, 1.0, 1.1, 10.0, 11.0):
        found.observe(value)
    assert (found.counts, found.sum) == ([2, 2, 1], 23.6)


def test_histograms_add_up() -> None:
    one, two = Histogram((1.0,)), Histogram((1.0,))
    one.observe(0.5, 3)
    two.observe(2)
    one.add(two)
    assert (one.counts, one.sum) == ([3, 1], 3.5)


def test_an_observation_keeps_no_memory() -> None:
    found = Histogram((1.0, 10.0))
    found.observe(0.5)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(1_000):
            found.observe(0.5)
        assert tracemalloc.get_traced_memory()[0] - before < 1_000
    finally:
        tracemalloc.stop()


def test_each_part_of_the_lateness_has_its_histogram() -> None:
    delays: DelayHistograms = {}
    observe_delay(delays, "t", Lateness(SECOND, 0, 20 * MILLISECOND, 0), times=2)
    assert {part: found.sum for (_, part), found in delays.items()} == {
        "scheduler": 2.0,
        "blocked": 0.0,
        "queue": 0.04,
        "worker": 0.0,
    }
