"""An executor that is imported with the first attempt that needs it.

An HTTP client takes longer to import than all the rest of a worker, and most fleets have workers that never call
anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from timeball.domain.run.lifecycle import Outcome
from timeball.executors.shortage import beginning
from timeball.executors.threads import aside
from timeball.ports.executor import Attempt, Executor


class Closable(Executor, Protocol):
    """An executor that keeps something open."""

    def close(self) -> Awaitable[None]: ...


class LazyExecutor:
    """`make` imports what it makes. It is called in a thread, so that leases are renewed meanwhile; attempts that come
    at once may call it more than once, and the first one that is made is used."""

    def __init__(self, kind: str, make: Callable[[], Closable]) -> None:
        self.kind = kind
        self._make = make
        self._executor: Closable | None = None

    async def close(self) -> None:
        if self._executor is not None:
            await self._executor.close()

    async def execute(self, attempt: Attempt) -> Outcome:
        if self._executor is None:
            self._executor = await self._first_made()
        return await self._executor.execute(attempt)

    async def _first_made(self) -> Closable:
        with beginning():
            made = await aside(self._make)
        return self._executor or made
