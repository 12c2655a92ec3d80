"""The connection for wakeups between servers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from timeball.stores.postgres.wakeups import PostgresWakeups


class _Connection:
    async def add_listener(self, *arguments: object) -> None: ...

    async def execute(self, *arguments: object, **options: object) -> None: ...

    def is_closed(self) -> bool:
        return False

    def terminate(self) -> None: ...


async def _connect() -> Any:
    return _Connection()


@pytest.mark.parametrize("steps", range(6))
async def test_a_close_that_comes_with_a_wakeup_ends_the_listener(steps: int) -> None:
    """`asyncio.wait_for` of Python 3.11 drops a cancellation that arrives together with the result."""
    wakeups = PostgresWakeups(_connect)
    listening = asyncio.create_task(wakeups.keep_listening())
    await asyncio.sleep(0.01)
    wakeups.wake_all("runs")
    for _ in range(steps):
        await asyncio.sleep(0)
    listening.cancel()
    await asyncio.wait([listening], timeout=0.2)
    assert listening.cancelled()
