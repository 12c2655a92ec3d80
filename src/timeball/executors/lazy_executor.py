"""An executor that is imported with the first attempt that needs it.

An HTTP client takes longer to import than the rest of a worker, and most fleets have workers that never execute HTTP
tasks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from timeball.domain.run.lifecycle import Outcome
from timeball.executors.shortage import beginning
from timeball.executors.threads import in_own_thread
from timeball.ports.executor import Executor, ExecutorAttempt


class Closable(Executor, Protocol):
    """An executor that has to be closed."""

    def close(self) -> Awaitable[None]: ...


class LazyExecutor:
    """`make` imports and creates the executor. It runs in a thread, so that leases are renewed during the import.
    Attempts that start at the same time may call it more than once; the first executor that was created is used.
    """

    def __init__(self, kind: str, make: Callable[[], Closable]) -> None:
        self.kind = kind
        self._make = make
        self._executor: Closable | None = None

    async def close(self) -> None:
        if self._executor is not None:
            await self._executor.close()

    async def execute(self, attempt: ExecutorAttempt) -> Outcome:
        if self._executor is None:
            self._executor = await self._first_made()
        return await self._executor.execute(attempt)

    async def _first_made(self) -> Closable:
        with beginning():
            made = await in_own_thread(self._make)
        return self._executor or made
