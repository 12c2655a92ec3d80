"""An executor that is imported with the first attempt that needs it.

An HTTP client takes longer to import than the rest of a worker, and most fleets have workers that never execute HTTP
tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from timeball.domain.run.lifecycle import Failed, Failure, Outcome
from timeball.domain.task.task import Task, kind_of
from timeball.executors import results
from timeball.executors.shortage import beginning
from timeball.executors.threads import in_own_thread
from timeball.ports.executor import BackgroundExecutor, Executor, ExecutorAttempt, OutOfResources

A = TypeVar("A", bound=ExecutorAttempt)


class Closable(Executor, Protocol):
    """An executor that has to be closed."""

    def close(self) -> Awaitable[None]: ...


class ClosableInBackground(BackgroundExecutor, Closable, Protocol):
    """An executor that executes attempts in the background and has to be closed."""


E = TypeVar("E", bound=Closable)


class LazyExecutor(Generic[E]):
    """Executes attempts with the executor that `make` imports and creates for the first of them. `make` runs in a
    thread, so that leases are renewed during the import. Attempts that start at the same time may call it more than
    once; the first executor that was created is used."""

    def __init__(self, kind: str, make: Callable[[], E]) -> None:
        self.kind = kind
        self._make = make
        self._executor: E | None = None

    async def close(self) -> None:
        if self._executor is not None:
            await self._executor.close()

    async def execute(self, attempt: ExecutorAttempt) -> Outcome:
        if self._executor is None:
            self._executor = await self._first_made()
        return await self._executor.execute(attempt)

    async def _first_made(self) -> E:
        with beginning():
            made = await in_own_thread(self._make)
        return self._executor or made


class LazyBackgroundExecutor(LazyExecutor[ClosableInBackground]):
    """Imports and creates an executor with its first attempt, as `LazyExecutor` does. The executor executes all its
    attempts in the background."""

    def __init__(self, kind: str, make: Callable[[], ClosableInBackground]) -> None:
        super().__init__(kind, make)
        self._starting: set[asyncio.Task[None]] = set()

    def in_background(self, task: Task) -> bool:
        return kind_of(task) == self.kind

    def start(self, attempt: A, ended: Callable[[A, Outcome | OutOfResources], None]) -> None:
        if self._executor is not None:
            self._executor.start(attempt, ended)
            return
        starting = asyncio.get_running_loop().create_task(self._start_first(attempt, ended))
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)

    async def _start_first(self, attempt: A, ended: Callable[[A, Outcome | OutOfResources], None]) -> None:
        try:
            executor = self._executor = await self._first_made()
            executor.start(attempt, ended)
        except OutOfResources as error:
            ended(attempt, error)
        except Exception as error:
            ended(attempt, Failed(Failure(kind="worker", message=f"{type(error).__name__}: {results.words(error)}")))
