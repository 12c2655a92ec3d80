"""Tasks that write their starts and ends to a file. Workers load them with `--tasks tests.acceptance.order_tasks`."""

import asyncio
import os
import random
import time
from functools import cache

import timeball


@cache
def _witness(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def say(path: str, what: str, group: str, ctx: timeball.Context) -> None:
    """One line, in one write: writers at the same time do not mix."""
    words = (what, group, ctx.run_id, ctx.attempt, ctx.fire_time.isoformat(), os.getpid(), time.monotonic_ns())
    os.write(_witness(path), (" ".join(map(str, words)) + "\n").encode())


@timeball.task("order.step")
async def step(witness: str, group: str, ctx: timeball.Context, failing: float = 0.0, longest: float = 0.0) -> None:
    """Take up to `longest` seconds, and fail with a chance of `failing`."""
    say(witness, "start", group, ctx)
    await asyncio.sleep(random.uniform(0, longest))
    fails = random.random() < failing
    say(witness, "failed" if fails else "end", group, ctx)
    if fails:
        raise RuntimeError("as it happens")
