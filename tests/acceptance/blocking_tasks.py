"""A function that blocks the event loop of its worker, which a function must not do."""

import time

from timeball import task


@task("block")
async def block(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251
