"""The random numbers of a process: one source for all its parts and threads, whose cost does not grow with its use."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from timeball import system
from timeball.client.requests.request import fresh_key


@pytest.fixture
def impatient_threads() -> Iterator[None]:
    """Threads that interrupt each other as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_keys_of_a_client_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks: list[object] = []
    monkeypatch.setattr(os, "register_at_fork", lambda **hook: hooks.append(hook))
    assert len({fresh_key() for _ in range(100)}) == 100
    assert len(hooks) <= 1


@pytest.mark.usefixtures("impatient_threads")
def test_threads_share_the_dice_and_get_different_numbers() -> None:
    def numbers(_: int) -> list[int]:
        return [system.rng().getrandbits(64) for _ in range(20 * system.RESERVE_WORDS)]

    with ThreadPoolExecutor(8) as threads:
        found = [number for some in threads.map(numbers, range(8)) for number in some]
    assert len(set(found)) == len(found) == 8 * 20 * system.RESERVE_WORDS
