"""Attempts in the background, whose executor may itself fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from tests.support.fake_worker_protocol import FakeDispatch, python
from timeball.domain.run.lifecycle import Failed, Outcome, Succeeded
from timeball.domain.task.task import Task
from timeball.ports.executor import ExecutorAttempt, OutOfResources
from timeball.ports.worker_protocol import RegisterWorker
from timeball.system import SystemClock, rng
from timeball.worker.worker import Worker

A = TypeVar("A", bound=ExecutorAttempt)


class Broken:
    """Fails at the start of each attempt: before it, after it has ended it, or although it ends it later."""

    kind = "python"

    async def execute(self, attempt: ExecutorAttempt) -> Outcome:
        raise AssertionError

    def in_background(self, task: Task) -> bool:
        return True

    def start(self, attempt: A, ended: Callable[[A, Outcome | OutOfResources], None]) -> None:
        if attempt.token == 2:
            ended(attempt, Succeeded())
        elif attempt.token == 3:
            asyncio.get_running_loop().call_soon(ended, attempt, Succeeded())
        raise RuntimeError("broken")


async def test_an_executor_that_raises_when_it_starts_an_attempt_leaves_no_slot_occupied() -> None:
    server = FakeDispatch()
    worker = Worker(server, {"python": Broken()}, SystemClock(), RegisterWorker(name="w", slots=1), rng=rng())
    await worker.start()
    try:
        given: set[int] = set()
        for token in (1, 2, 3):
            given.add(token)
            server.give(python(token, "noop"))
            await server.until(lambda: set(server.ended) >= given)
        await server.until_polled(lambda poll: not poll.held)
        assert server.polls[-1].free == 1
    finally:
        await worker.stop()
    failed = server.ended[1].outcome
    assert isinstance(failed, Failed)
    assert (failed.failure.kind, failed.failure.message) == ("worker", "RuntimeError: broken")
    assert server.ended[2].outcome == Succeeded()
