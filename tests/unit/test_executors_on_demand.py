"""An executor that is made with the first attempt that needs it."""

import asyncio
import threading
from typing import Any

from msgspec import Raw

from timeball.domain.lifecycle import Outcome, Succeeded
from timeball.executors.on_demand import OnDemand

DONE = Succeeded(Raw(b"1"))


class Counting:
    kind = "http"

    def __init__(self) -> None:
        self.executed: list[Any] = []
        self.closed = 0

    async def execute(self, attempt: Any) -> Outcome:
        self.executed.append(attempt)
        return DONE

    async def close(self) -> None:
        self.closed += 1


async def test_nothing_is_made_unless_an_attempt_needs_it() -> None:
    made: list[Counting] = []
    executor = OnDemand("http", lambda: made.append(Counting()) or made[-1])  # type: ignore[func-returns-value]
    await executor.close()
    assert executor.kind == "http"
    assert not made


async def test_attempts_that_come_at_once_share_one_which_is_closed() -> None:
    together = threading.Barrier(2, timeout=30)
    made: list[Counting] = []

    def make() -> Counting:
        together.wait()
        made.append(Counting())
        return made[-1]

    executor = OnDemand("http", make)
    attempts: list[Any] = ["a", "b"]
    assert await asyncio.gather(*(executor.execute(attempt) for attempt in attempts)) == [DONE, DONE]
    assert await executor.execute("c") == DONE  # type: ignore[arg-type]
    await executor.close()
    used = [each for each in made if each.executed]
    assert len(used) == 1
    assert sorted(used[0].executed) == ["a", "b", "c"]
    assert used[0].closed == 1
