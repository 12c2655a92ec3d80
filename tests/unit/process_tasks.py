"""Tasks for processes of their own; these processes import this module."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import timeball
from timeball.tasks import Context


@timeball.task("process.add", mode="process")
def add(a: int, b: int) -> dict[str, int]:
    print("adding")
    return {"sum": a + b, "pid": os.getpid()}


@timeball.task("process.async_add", mode="process")
async def async_add(a: int, b: int, ctx: Context) -> int:
    await asyncio.sleep(0)
    ctx.log("adding\ud800")
    ctx.progress(0.5, "half")
    return a + b


@timeball.task("process.fail", mode="process")
def fail() -> None:
    raise FileNotFoundError("no such luck")


@timeball.task("process.vanish", mode="process")
def vanish(code: int) -> None:
    os._exit(code)


@timeball.task("process.sleep", mode="process")
def sleep() -> None:
    print("asleep", flush=True)
    time.sleep(600)


@timeball.task("process.polite", mode="process")
def polite(ctx: Context) -> Any:
    print("waiting", flush=True)
    while not ctx.cancelled:
        time.sleep(0.01)
    return ["stopped", ctx.attempt, ctx.fencing_token, ctx.run_id]
