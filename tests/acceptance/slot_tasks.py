"""Tasks that note their start in a file and then wait. Workers load them with `--tasks tests.acceptance.slot_tasks`."""

import asyncio
import os
import time
from functools import cache
from pathlib import Path

import timeball


@cache
def _witness(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


@timeball.task("slots.coroutine")
async def coroutine(until: str) -> None:
    """Wait until a file exists."""
    while not os.access(until, os.F_OK):
        await asyncio.sleep(1)


@timeball.task("slots.thread")
def thread(until: str) -> None:
    """Wait in a thread until a file exists."""
    while not Path(until).exists():
        time.sleep(0.1)


@timeball.task("slots.short")
async def short(witness: str, ctx: timeball.Context) -> None:
    """Note the start, and wait 50 ms."""
    os.write(_witness(witness), f"{ctx.run_id} {time.monotonic_ns()}\n".encode())
    await asyncio.sleep(0.05)
