"""Writes finished days of history to the archive. The maintenance loop calls `DayArchiver.keep` repeatedly until a day
is archived; each call waits at most `DAY_WAIT_TIMEOUT`.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from timeball.domain import instant
from timeball.domain.errors import Unavailable
from timeball.domain.instant import HOUR, MINUTE, SECOND, Micros
from timeball.operation.storage.archive import Archived, archive_day
from timeball.operation.storage.large_values import LargeValueStore
from timeball.ports.clock import Clock
from timeball.ports.object_store import Objects
from timeball.ports.store.store import Store

DAY_WAIT_TIMEOUT: Final = 2 * SECOND
"""Maximum number of microseconds that one call of `keep` waits for the archiving of a day."""
ARCHIVE_RETRY_DELAY: Final = MINUTE
"""Microseconds before a day is archived again after a failure."""
LATEST_REPORT: Final = HOUR
"""The end of a run may be stored up to this long after the run ended. A run that ended earlier is already stored, or
never will be.
"""
MAX_DAYS: Final = 1_000
"""Maximum number of archived days that the archiver remembers."""
_log = structlog.get_logger()


class DayArchiver:
    """Implements `timeball.ports.store.maintenance.Archiver`. It archives one day at a time, in a task of its own, so
    that a large day does not block the maintenance loop. When it archives a day again, it leaves out the runs that
    ended more than `LATEST_REPORT` before it archived that day last. It may be stopped at any moment.
    """

    def __init__(
        self, store: Store, objects: Objects, clock: Clock, large_value_store: LargeValueStore | None = None
    ) -> None:
        self._store = store
        self._objects = objects
        self._clock = clock
        self._large_value_store = large_value_store
        self._day: Micros = -1
        self._work: asyncio.Task[Archived] | None = None
        self._sleeps_until: Micros | None = None
        self._kept: dict[Micros, Micros] = {}
        """An instant for each archived day. The runs of the day that ended before this instant are in the archive."""

    async def keep(self, day: Micros) -> bool:
        if self._sleeps_until is not None and self._clock.monotonic() < self._sleeps_until:
            return False
        work = self._work
        if work is None:
            self._day = day
            work = self._work = asyncio.create_task(self._archive(day), name="archiver")
        await asyncio.wait([work], timeout=DAY_WAIT_TIMEOUT / SECOND)
        if not work.done():
            return False
        self._work = None
        try:
            work.result()
        except Unavailable as error:
            _log.warning("a day cannot be archived and stays in the store", day=self._name, error=str(error))
            self._sleeps_until = self._clock.monotonic() + ARCHIVE_RETRY_DELAY
            return False
        return self._day == day

    async def close(self) -> None:
        """Cancel the archiving of a day that is in progress."""
        work, self._work = self._work, None
        if work is not None:
            work.cancel()
            await asyncio.wait([work])

    async def _archive(self, day: Micros) -> Archived:
        now, date = self._store.now(), instant.to_datetime(day).date()
        archived = await archive_day(self._store, self._objects, date, self._kept.get(day, 0), self._large_value_store)
        self._kept.pop(day, None)  # reinsert, so that the day is the newest entry of the dict
        self._kept[day] = now - LATEST_REPORT
        if len(self._kept) > MAX_DAYS:
            del self._kept[next(iter(self._kept))]
        if archived.runs:
            _log.info("a day was archived", day=self._name, runs=archived.runs, logs=archived.logs)
        return archived

    @property
    def _name(self) -> str:
        return instant.to_datetime(self._day).date().isoformat()
