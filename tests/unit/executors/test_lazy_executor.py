"""An executor that is created with the first attempt that needs it."""

import asyncio
import errno
import os
import threading
from typing import Any

import pytest
from msgspec import Raw

from timeball.domain.run.lifecycle import Outcome, Succeeded
from timeball.executors.lazy_executor import LazyBackgroundExecutor, LazyExecutor
from timeball.ports.executor import OutOfResources

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
    executor = LazyExecutor("http", lambda: made.append(Counting()) or made[-1])  # type: ignore[func-returns-value]
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

    executor = LazyExecutor("http", make)
    attempts: list[Any] = ["a", "b"]
    assert await asyncio.gather(*(executor.execute(attempt) for attempt in attempts)) == [DONE, DONE]
    assert await executor.execute("c") == DONE  # type: ignore[arg-type]
    await executor.close()
    used = [each for each in made if each.executed]
    assert len(used) == 1
    assert sorted(used[0].executed) == ["a", "b", "c"]
    assert used[0].closed == 1


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
async def test_a_library_that_cannot_be_opened_for_lack_of_something_is_tried_again(number: int) -> None:
    """I29: the loader of libraries says why in words only."""
    errors = [ImportError(f"x.so: cannot open shared object file: {os.strerror(number)}"), ImportError("no module x")]

    def make() -> Counting:
        if errors:
            raise errors.pop(0)
        return Counting()

    executor = LazyExecutor("http", make)
    attempt: Any = "a"
    with pytest.raises(OutOfResources):
        await executor.execute(attempt)
    with pytest.raises(ImportError):
        await executor.execute(attempt)
    assert await executor.execute(attempt) == DONE


class Broken(Counting):
    """Fails when it starts an attempt."""

    def in_background(self, task: Any) -> bool:
        return True

    def start(self, attempt: Any, ended: Any) -> None:
        raise RuntimeError("broken")


async def test_an_executor_that_raises_when_it_starts_its_first_attempt_ends_the_attempt() -> None:
    executor = LazyBackgroundExecutor("http", Broken)
    ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    attempt: Any = "a"
    executor.start(attempt, lambda _, outcome: ended.set_result(outcome))
    assert (await ended).failure.message == "RuntimeError: broken"
