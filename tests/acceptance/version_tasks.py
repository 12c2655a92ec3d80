"""A task that executes until a file appears. Workers load it with `--tasks tests.acceptance.version_tasks`, which also
registers `order.step`."""

import asyncio
import os

import timeball
from tests.acceptance.order_tasks import say


@timeball.task("version.hold")
async def hold(witness: str, group: str, gate: str, ctx: timeball.Context) -> None:
    say(witness, "start", group, ctx)
    while not os.path.exists(gate):  # noqa: ASYNC240 - it is local, and looked at twenty times a second
        await asyncio.sleep(0.05)
    say(witness, "end", group, ctx)


@timeball.task("version.result")
async def result(ctx: timeball.Context) -> dict[str, str]:
    """The source that this worker was started from."""
    print("a line of output")
    return {"source": str(timeball.__file__)}
