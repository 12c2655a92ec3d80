"""The loop that stores when API keys and users were last used, for all credentials that this server has seen since its
last write."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from timeball.domain.errors import Unavailable
from timeball.domain.instant import SECOND, Micros
from timeball.operation.context import OperationContext
from timeball.server.loop import Loop
from timeball.server.wakeups import LocalWakeups

WRITE_INTERVAL: Final = 50 * SECOND
"""Microseconds between two writes. A server that is killed loses the uses since its last write."""
LAST_WRITE_SECONDS: Final = 1.0
"""Maximum number of seconds that a server which stops waits for its last write."""


class CredentialUseWriter(Loop):
    name = "credential_use_writer"
    serves_requests = True
    is_required = False  # only lists of keys and users show what it stores

    def __init__(self, context: OperationContext, wakeups: LocalWakeups) -> None:
        super().__init__(context.clock, wakeups)
        self._store = context.store
        self._uses = context.credential_uses
        self._sleeps_until: Micros = self._clock.monotonic() + WRITE_INTERVAL

    async def turn(self) -> Micros:
        left = self._sleeps_until - self._clock.monotonic()
        if left > 0:
            return left
        await self._write()
        self._sleeps_until = self._clock.monotonic() + WRITE_INTERVAL
        return WRITE_INTERVAL

    async def stop(self) -> None:
        is_running = self._task is not None
        await super().stop()
        if is_running:
            with contextlib.suppress(Unavailable, TimeoutError):
                async with asyncio.timeout(LAST_WRITE_SECONDS):
                    await self._write()

    async def _write(self) -> None:
        uses = self._uses.take()
        try:
            await self._store.note_uses(uses)
        except Unavailable:
            self._uses.put_back(uses)
            raise
