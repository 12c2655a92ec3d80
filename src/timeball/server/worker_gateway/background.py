"""Background tasks of the gateway. No answer to a worker waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import structlog

_log = structlog.get_logger()


class BackgroundTasks:
    def __init__(self) -> None:
        self.running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work, name="worker_gateway")
        self.running.add(task)
        task.add_done_callback(self._done)

    def cancel(self) -> None:
        for task in self.running:
            task.cancel()

    def _done(self, task: asyncio.Task[None]) -> None:
        self.running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("background task failed", error=str(error) or type(error).__name__)
