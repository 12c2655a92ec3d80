"""The bounds of a worker by kind of work, and the room in its pools."""

import pytest

from timeball.domain.dispatch.slot_bounds import DEFAULT_SLOTS, DEFAULT_THREADS, MIN_PROCESSES, SlotBounds
from timeball.domain.dispatch.slot_pools import PoolRoom, SlotPool, SlotPools, pools_of
from timeball.domain.task.kinds import FUNCTION_POOLS, KINDS, PROCESSES, THREADS
from timeball.tasks import MODES

MODES_OF = {"a": "async", "t": "thread", "p": "process"}


def test_the_default_bounds_grow_with_what_a_run_costs() -> None:
    bounds = SlotBounds.usual(cpus=2)
    assert bounds == (DEFAULT_SLOTS, DEFAULT_THREADS, MIN_PROCESSES)
    assert bounds.slots > 3 * bounds.threads > 9 * bounds.processes


@pytest.mark.parametrize(
    ("cpus", "most", "expected"), [(0.5, 1_000, (500, 100, 32)), (16, 1_000, (500, 100, 128)), (16, 32, (32, 32, 32))]
)
def test_the_machine_bounds_them_too(cpus: float, most: int, expected: tuple[int, int, int]) -> None:
    assert SlotBounds.usual(cpus, most) == expected


def test_workers_share_the_default_bounds() -> None:
    assert SlotBounds(500, 100, 32).share(3) == (167, 34, 11)
    assert SlotBounds(500, 100, 32).share(1) == (500, 100, 32)


def test_a_worker_with_one_number_has_no_pools() -> None:
    assert pools_of(SlotBounds.all_alike(8), MODES_OF) == []


def test_the_pools_name_the_runs_that_they_bound() -> None:
    bounds = SlotBounds(500, 50, 8)
    assert pools_of(bounds, MODES_OF) == [
        SlotPool(THREADS, 50, [], ["t"]),
        SlotPool(PROCESSES, 8, ["shell", "script"], ["p"]),
    ]
    assert pools_of(bounds, {}, kinds=["http", "shell"]) == [SlotPool(PROCESSES, 8, ["shell"])]
    assert pools_of(bounds, {"a": "async"}, kinds=["http", "python"]) == []


def test_every_kind_and_every_mode_has_one_bound() -> None:
    pools = SlotPools(pools_of(SlotBounds(500, 50, 8), MODES_OF))
    assert {kind: pools.of(kind, None) for kind in KINDS} == {
        "http": None,
        "shell": PROCESSES,
        "script": PROCESSES,
        "python": None,
    }
    assert set(FUNCTION_POOLS) == set(MODES)
    assert [pools.of("python", name) for name in ("a", "t", "p", "other")] == [None, THREADS, PROCESSES, None]


def test_a_run_takes_slots_of_its_pool() -> None:
    pools = SlotPools([SlotPool("threads", 2, [], ["t"]), SlotPool("processes", 3, ["shell"])])
    room = PoolRoom(pools, {"threads": 1, "processes": 3})
    assert room.has("threads")
    room.copy().take("threads")
    assert room.has("threads"), "a copy has its own counts"
    room.take("threads")
    assert not room.has("threads")
    assert room.has(None, slots=1_000), "a run without a pool is not bounded here"
    assert room.has("processes", slots=10), "a run that takes more than the pool has takes all of it"
    room.take("processes")
    assert not room.has("processes", slots=10)
    assert room.has("processes", slots=2)
