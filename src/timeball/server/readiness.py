"""Decides whether a server is ready: it is not stopping, its required loops succeed, and its store answers and accepts
writes.

The result is public, so it contains only kinds of errors; the log has the messages. All callers share one test write
per `WRITE_INTERVAL`, so that frequent checks do not load the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from timeball.domain.errors import Unavailable
from timeball.domain.instant import SECOND, Micros
from timeball.ports.readiness import Readiness
from timeball.server.loop import kind_of_error
from timeball.server.server import Server

WRITE_INTERVAL: Final = 3 * SECOND
"""Microseconds between two writes that test the store."""
STORE_TIMEOUT: Final = 2 * SECOND
"""Maximum number of microseconds that the store may take to answer."""
TOO_SLOW: Final = f"no answer within {STORE_TIMEOUT // SECOND} s"
_log = structlog.get_logger()


class ReadinessProbe:
    """Returns the readiness of a server when called. Any number of callers may use it at the same time."""

    def __init__(self, server: Server, stopping: Callable[[], bool]) -> None:
        self._server = server
        self._store = server.context.store
        self._clock = server.context.clock
        self._stopping = stopping
        self._writing: asyncio.Task[str] | None = None
        self._written_at: Micros | None = None
        self._write_problem = ""

    async def __call__(self) -> Readiness:
        store, writes = await asyncio.gather(self._ping(), self._write())
        problems = {"stays": "the server is stopping" if self._stopping() else "", "store": store, "writes": writes}
        degraded: dict[str, str] = {}
        for loop in self._server.loops:
            problem = loop.problem()
            if loop.is_required:
                problems[loop.name] = problem
            elif problem:
                degraded[loop.name] = problem
        return Readiness(
            checks={name: not problem for name, problem in problems.items()},
            problems={name: problem for name, problem in problems.items() if problem},
            degraded=degraded,
        )

    async def _ping(self) -> str:
        try:
            async with asyncio.timeout(STORE_TIMEOUT / SECOND):
                await self._store.ping()
        except (Unavailable, TimeoutError) as error:
            return TOO_SLOW if isinstance(error, TimeoutError) else kind_of_error(error)
        return ""

    async def _write(self) -> str:
        """Return why the last test write failed, or an empty string. If a write is in progress, wait for it, at most
        `STORE_TIMEOUT`.
        """
        now = self._clock.monotonic()
        if self._writing is None and (self._written_at is None or now - self._written_at >= WRITE_INTERVAL):
            self._written_at = now
            self._writing = asyncio.create_task(self._try_to_write(), name="readiness")
        work = self._writing
        if work is None:
            return self._write_problem
        await asyncio.wait([work], timeout=STORE_TIMEOUT / SECOND)
        return work.result() if work.done() else TOO_SLOW

    async def _try_to_write(self) -> str:
        before = self._write_problem
        try:
            await self._store.probe_write()
            self._write_problem = ""
        except Exception as error:
            self._write_problem = kind_of_error(error)
            if not before:
                _log.error("the store cannot be written; the server is not ready", error=str(error))
        if before and not self._write_problem:
            _log.info("the store can be written again")
        self._writing = None
        return self._write_problem
