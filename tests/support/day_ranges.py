"""Operations of maintenance on days, repeated while the store is occupied: PostgreSQL may vacuum the table that is to
be changed.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from timeball.domain.instant import HOUR, Micros
from timeball.ports.store.maintenance import Lead, Occupied
from timeball.ports.store.store import Store

T = TypeVar("T")


async def leading(store: Store) -> Lead:
    lead = await store.lead("housekeeping", "s_1", HOUR)
    assert lead is not None
    return lead


async def prepare_days(store: Store, days: Sequence[Micros]) -> None:
    """Create the partitions of these days, if the store has one partition per day."""
    lead = await leading(store)
    await patiently(lambda: store.prepare_days(lead, days))


async def patiently(step: Callable[[], Awaitable[T]]) -> T:
    for _ in range(100):
        with contextlib.suppress(Occupied):
            return await step()
        await asyncio.sleep(0.1)
    return await step()
