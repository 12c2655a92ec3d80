"""What this machine can do at best: a bare timer, then one write and fsync, without Timeball."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time


def timer_and_fsync(offsets: list[float]) -> list[float]:
    """Return for each moment (seconds from now) how late its record was durable, in milliseconds."""
    return asyncio.run(_measure(offsets))


async def _measure(offsets: list[float]) -> list[float]:
    late: list[float] = []
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    start = loop.time() + 0.2
    with tempfile.TemporaryFile() as file:

        def fire(due: float) -> None:
            os.write(file.fileno(), b"%f\n" % due)
            os.fsync(file.fileno())
            late.append((time.monotonic() - due) * 1_000)
            if len(late) == len(offsets):
                done.set()

        for offset in offsets:
            loop.call_at(start + offset, fire, start + offset)
        await done.wait()
    return late
