"""How much CPU time the event loop's thread spends without a pause."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from time import thread_time

TICK = 0.005


class Stretches:
    """CPU time (seconds) of this thread between ticks of a timer that is due every 5 ms."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._last = thread_time()

    def tick(self) -> None:
        now = thread_time()
        self.longest = max(self.longest, now - self._last)
        self._last = now


@asynccontextmanager
async def measured() -> AsyncIterator[Stretches]:
    found = Stretches()

    async def tick() -> None:
        while True:
            await asyncio.sleep(TICK)
            found.tick()

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(2 * TICK)
    found.longest = 0.0
    try:
        yield found
        await asyncio.sleep(2 * TICK)
    finally:
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking
