"""The tasks that the worker of a soak executes: honest jobs that record their starts, and jobs of attackers."""

from __future__ import annotations

import os
import time

from timeball import Context, task

FILE = "SOAK_WITNESS"
"""The environment variable that names the file of starts."""


@task("soak.mark")
async def mark(ctx: Context, due: int) -> None:
    """Append: job, attempt, due and start in microseconds."""
    started = time.time_ns() // 1_000
    descriptor = os.open(os.environ[FILE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{ctx.job_id} {ctx.attempt} {due} {started}\n".encode())
    finally:
        os.close(descriptor)


@task("soak.tick")
async def tick() -> None:
    """A fire of a schedule; the ledger counts it."""


@task("soak.odd_failure")
async def odd_failure() -> None:
    """An exception whose class name is no valid text."""
    raise type("Odd\udc80\x00", (Exception,), {})("\udcff" * 100_000)


@task("soak.odd_result")
async def odd_result() -> object:
    return {"odd": "\udc80", "object": object(), "number": float("nan")}
