"""Archives days for the keeper, which asks again and again, and never waits for long."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from timeball.domain import instant
from timeball.domain.instant import SECOND, Micros
from timeball.operation.archive import Archived, archive_day
from timeball.ports.objects import Objects
from timeball.ports.store import Store

PATIENCE: Final = 2 * SECOND
"""How long who asks for a day waits for it."""
_log = structlog.get_logger()


class DayArchivist:
    """Implements `timeball.ports.housekeeping.Archivist`. One day at a time; a large one takes its time beside the
    keeper's turns. What was archived is known to the archive, not to this object: it may be stopped at any moment."""

    def __init__(self, store: Store, objects: Objects) -> None:
        self._store = store
        self._objects = objects
        self._day: Micros = -1
        self._work: asyncio.Task[Archived] | None = None

    async def keep(self, day: Micros) -> bool:
        work = self._work
        if work is None:
            self._day = day
            work = self._work = asyncio.create_task(self._archive(day), name="archivist")
        await asyncio.wait([work], timeout=PATIENCE / SECOND)
        if not work.done():
            return False
        self._work = None
        work.result()
        return self._day == day

    async def close(self) -> None:
        """Stop in the middle of a day, if need be."""
        work, self._work = self._work, None
        if work is not None:
            work.cancel()
            await asyncio.wait([work])

    async def _archive(self, day: Micros) -> Archived:
        date = instant.to_datetime(day).date()
        archived = await archive_day(self._store, self._objects, date, self._store.now())
        if archived.runs:
            _log.info("a day is in the archive", day=f"{date}", runs=archived.runs, logs=archived.logs)
        return archived
