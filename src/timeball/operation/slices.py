"""Long computations in slices, between which the event loop does what else is due."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")


async def in_slices(steps: Iterator[T | None]) -> T | None:
    """The first result of a computation that yields None after each slice; None: it ended without one."""
    for found in steps:
        if found is not None:
            return found
        await asyncio.sleep(0)
    return None


async def give_way() -> None:
    """Let others have their turn."""
    await asyncio.sleep(0)
