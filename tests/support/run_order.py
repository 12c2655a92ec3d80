"""The order in which parallel processes take the tests of a whole run: it keeps every core busy up to the end.

Tests of real processes mostly wait, the others mostly compute. While all processes run tests that wait, cores are idle.
So these tests are spread evenly over the first part of the run. Long tests begin first, because a long test at the end
would leave all other processes without work. Short tests of single modules fill up the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

LONG: Final = (
    "tests/acceptance/test_chaos.py",
    "tests/acceptance/test_overlap.py",
    "tests/acceptance/test_stalled_worker.py",
    "tests/acceptance/test_rolling.py",
    "tests/acceptance/test_tutorials.py",
    "tests/acceptance/test_order.py",
    "tests/acceptance/test_versions.py",
    "tests/acceptance/test_crashes.py",
    "tests/acceptance/test_migrate.py",
    "tests/acceptance/test_workers.py",
    "tests/integration/test_bench_kinds.py",
    "tests/soak/test_soak.py",
    "tests/simulation/test_simulation.py",
)
"""The files with the longest tests, by the duration of their longest one."""
WAITING: Final = ("tests/acceptance/", "tests/soak/", "tests/integration/test_bench_")
"""The beginnings of the paths of tests that mostly wait."""
LAST: Final = ("tests/architecture/", "tests/unit/")
"""The beginnings of the paths of tests that are short and mostly compute."""


def path(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def best_order(nodeids: Sequence[str]) -> list[int]:
    """Return the positions of tests in the order in which they should begin. Tests of equal rank keep their order."""
    places = {name: at for at, name in enumerate(LONG)}
    order = sorted(range(len(nodeids)), key=lambda at: places.get(path(nodeids[at]), len(LONG)))
    waiting = [at for at in order if nodeids[at].startswith(WAITING)]
    computing = [at for at in order if not nodeids[at].startswith((*WAITING, *LAST))]
    last = [at for at in order if nodeids[at].startswith(LAST)]
    return [*spread(waiting, computing), *last]


def spread(some: Sequence[T], others: Sequence[T]) -> list[T]:
    """Merge two sequences so that every part of the result has about the same share of both."""
    placed = [((at + 0.5) / len(each), item) for each in (some, others) for at, item in enumerate(each)]
    return [item for _, item in sorted(placed, key=lambda pair: pair[0])]
