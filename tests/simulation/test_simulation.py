"""The promises hold in simulated fleets with seeded faults, and every planted bug breaks one of its promises."""

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation.plants import PLANTS
from tests.simulation.rules import APART
from tests.simulation.simulate import simulate
from tests.support.thorough import THOROUGH

SEEDS_APART = 100 if THOROUGH else 5
CHUNK_APART = 5
SEEDS = 200 - 5 * len(APART)
CHUNK = 10
MAX_SEEDS_PER_PLANT = 150


@pytest.fixture(autouse=True)
def _tidy() -> Iterator[None]:
    yield
    gc.collect()  # worlds contain many reference cycles, and the collector is off while they run


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_promises_hold_whatever_goes_wrong(first: int) -> None:
    for seed in range(first, first + CHUNK):
        all_is_well(seed, None)


@pytest.mark.parametrize("first", range(0, SEEDS_APART, CHUNK_APART))
@pytest.mark.parametrize("theme", APART)
def test_promises_hold_in_worlds_of_their_own(theme: str, first: int) -> None:
    for seed in range(first, first + CHUNK_APART):
        all_is_well(seed, theme)


@pytest.mark.parametrize(
    ("theme", "seed"),
    [
        pytest.param("retention", 26, id="a run that was cancelled before its fire is pruned after it"),
        pytest.param("calendars", 211, id="a server dies while its planner waits for a turn of the shared event loop"),
        pytest.param("clocks", 67, id="the clock steps between the due instant and the start of a run"),
        pytest.param("clocks", 77, id="the same with a shorter step"),
        pytest.param("clocks", 330, id="a long step of the clock hides short ones from a store that no server uses"),
        pytest.param("clocks", 607, id="the same before a run replaces another"),
        pytest.param("clocks", 679, id="the same at the end of the world"),
        pytest.param("clocks", 650, id="two long steps of the clock look like one to a store that no server uses"),
    ],
)
def test_promises_hold_where_they_once_broke(theme: str, seed: int) -> None:
    all_is_well(seed, theme)


def all_is_well(seed: int, theme: str | None) -> None:
    outcome = simulate(seed, tail=0, theme=theme)
    assert outcome.violation is None, (
        f"seed {seed}: {outcome.promise} is broken: {outcome.violation}\n"
        f"see: python -m tests.simulation {outcome.again} --trace"
    )


@pytest.mark.parametrize("name", PLANTS)
def test_planted_bugs_are_caught(name: str) -> None:
    plant = PLANTS[name]
    for seed in range(plant.first, plant.first + MAX_SEEDS_PER_PLANT):
        outcome = simulate(seed, plant, tail=0)
        if outcome.violation is not None:
            assert outcome.promise in plant.breaks, f"seed {seed}: {outcome.promise}: {outcome.violation}"
            return
    pytest.fail(f"{name} was not caught in {MAX_SEEDS_PER_PLANT} seeds")


def test_equal_seeds_give_equal_traces_in_every_process() -> None:
    script = "from tests.simulation.simulate import simulate; print([simulate(s, tail=0).digest for s in (3, 14, 35)])"
    root = Path(__file__).parents[2]
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert digests == {f"{[simulate(seed, tail=0).digest for seed in (3, 14, 35)]}\n"}
