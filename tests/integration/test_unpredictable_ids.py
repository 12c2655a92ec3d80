"""I31: the ids that a server has returned do not reveal any later id."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.api import Api, serving
from tests.support.migrated import sqlite_store
from timeball import system
from timeball.ports.clock import Rng

STATE_WORDS, MIDDLE = 624, 397
TASK = {"task": {"kind": "shell", "command": "true"}, "schedule": {"type": "cron", "expression": "0 0 1 1 *"}}


def untempered(word: int) -> int:
    """The word of the state of MT19937 that an output was made of."""
    word ^= word >> 18
    word ^= (word << 15) & 0xEFC60000
    bits = word
    for _ in range(5):
        bits = word ^ ((bits << 7) & 0x9D2C5680)
    word = bits
    for _ in range(3):
        bits = word ^ (bits >> 11)
    return bits & 0xFFFFFFFF


def predictions(outputs: list[int | None]) -> int:
    """How many outputs of a generator follow from earlier ones, if it is MT19937. None: not seen."""
    state = [None if word is None else untempered(word) for word in outputs]
    right = 0
    for at in range(len(state) - STATE_WORDS):
        first, second, middle, next_ = (state[at + offset] for offset in (0, 1, MIDDLE, STATE_WORDS))
        if first is None or second is None or middle is None or next_ is None:
            continue
        mixed = (first & 0x80000000) | (second & 0x7FFFFFFF)
        right += next_ == middle ^ (mixed >> 1) ^ (0x9908B0DF if mixed & 1 else 0)
    return right


def words(ident: str) -> list[int | None]:
    """The random bits of an id, in the order in which a generator makes them."""
    number = int(ident[14:], 16)
    return [number & 0xFFFFFFFF, number >> 32]


def test_the_attack_clones_a_mersenne_twister() -> None:
    rng = random.Random(7)
    assert predictions([rng.getrandbits(32) for _ in range(STATE_WORDS + 100)]) == 100


async def predicted(api: Api, count: int) -> int:
    """What the attack finds in the ids of jobs that one client creates. The id of the first run of each, which a server
    makes after it, is not shown."""
    seen: list[int | None] = []
    for _ in range(count):
        answer = await api("POST", "/v1/jobs", json=TASK)
        assert answer.status_code == 201, answer.text
        seen += [*words(answer.json()["jobId"]), None, None]
    return predictions(seen)


@pytest.mark.parametrize(
    ("make", "found"),
    [
        pytest.param(lambda: random.Random(7), 44, id="a seeded generator"),
        pytest.param(system.rng, 0, id="the server's"),
    ],
)
async def test_the_ids_of_200_answers_tell_nothing_of_the_next(
    tmp_path: Path, make: Callable[[], Rng], found: int
) -> None:
    async with serving(sqlite_store(tmp_path / "timeball.db"), rng=make()) as api:
        assert await predicted(api, 200) == found


async def test_the_ids_of_700_answers_tell_nothing_of_the_next(tmp_path: Path) -> None:
    async with serving(sqlite_store(tmp_path / "timeball.db")) as api:
        assert await predicted(api, 700) == 0


def test_a_forked_process_makes_other_ids() -> None:
    rng = system.rng()
    rng.getrandbits(64)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, rng.getrandbits(64).to_bytes(8))
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        assert pipe.read(8) != rng.getrandbits(64).to_bytes(8)
