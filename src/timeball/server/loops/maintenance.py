"""Keeps house for all servers, under a lease: makes room for the days to come, and lets go of history that is old.

One server at a time does it. If two believe to be that one, the store listens to the newer only. Each turn does one
small step of each chore, so that nobody has to wait for long, and none of the chores for the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from msgspec import Struct

from timeball.domain import ids, retention
from timeball.domain.errors import Unavailable
from timeball.domain.instant import HOUR, MILLISECOND, MINUTE, SECOND, Micros
from timeball.operation.context import Context
from timeball.ports.store.maintenance import Archiver, Deposed, Lead, Occupied
from timeball.server.loop import Loop
from timeball.server.wakeups import LocalWakeups

LEASE_NAME: Final = "housekeeping"
LEASE: Final = 3 * MINUTE
MAINTENANCE_INTERVAL: Final = MINUTE
LEASE_RETRY_DELAY: Final = SECOND
"""Before the archivist is asked again."""
PRUNE_STEP_DELAY: Final = 20 * MILLISECOND
"""Between two steps: others have work to do, too."""
PRUNE_RETRY_DELAY: Final = 10 * SECOND
"""Before something is tried again for which others would have had to wait."""
SELDOM: Final = HOUR
"""Between two looks for what need not be looked for often."""
SWEEP_EVERY: Final = 6 * HOUR
"""Between two looks for objects that nobody refers to: all of them are listed for that."""
ROWS: Final = 500
"""How much goes in one step, about."""
DAYS: Final = 100
"""How many days are asked for at once."""
_log = structlog.get_logger()


class _Pruning(Struct, frozen=True):
    day: Micros
    before: Micros
    """What ended before may go: if there is an archive, it has that."""


class MaintenanceLoop(Loop):
    name = "maintenance"
    is_required = False  # what it lets go of may stay for longer
    max_time_without_success = LEASE

    def __init__(
        self,
        context: Context,
        wakeups: LocalWakeups,
        *,
        keep_for: Micros | None = retention.DEFAULT,
        archivist: Archiver | None = None,
    ) -> None:
        """`keep_for` is how long what ended is kept; None: for ever. With an archivist, nothing goes before it is
        kept elsewhere."""
        super().__init__(context.clock, wakeups)
        self._store = context.store
        self._keep_for = keep_for
        self._archivist = archivist
        self._holder = ids.make("s", 0, context.dice)
        self._rests_until: Micros = 0
        self._pruning: _Pruning | None = None
        self._asked_for: Micros = 0
        self._prepared_at: Micros | None = None
        self._tidied_at: Micros | None = None
        self._large_value_store = context.large_value_store
        self._sweeping: asyncio.Task[int] | None = None
        self._swept_at: Micros | None = None

    async def turn(self) -> Micros:
        left = self._rests_until - self._clock.monotonic()
        if left > 0:
            return left
        lead = await self._store.lead(LEASE_NAME, self._holder, LEASE)
        if lead is None:
            return self._rest(MAINTENANCE_INTERVAL)
        try:
            failures: list[Exception] = []
            chores = (self._prepare, self._prune, self._tidy, self._sweep)
            rest = min([await self._attempt(chore, lead, failures) for chore in chores])
            if failures:  # every chore had its turn
                self._rest(rest)
                raise failures[0]
        except Deposed as error:
            _log.warning("another server keeps house now", error=str(error))
            self._pruning = None
            rest = MAINTENANCE_INTERVAL
        return self._rest(rest)

    @staticmethod
    async def _attempt(chore: Callable[[Lead], Awaitable[Micros]], lead: Lead, failures: list[Exception]) -> Micros:
        """One step of a chore; how long it can rest then. What fails keeps no other chore from its step."""
        try:
            return await chore(lead)
        except Occupied:
            return PRUNE_RETRY_DELAY
        except (Deposed, Unavailable):
            raise
        except Exception as error:
            failures.append(error)
            return PRUNE_RETRY_DELAY

    def _rest(self, length: Micros) -> Micros:
        self._rests_until = self._clock.monotonic() + length
        return length

    async def _prepare(self, lead: Lead) -> Micros:
        """Make room for the days to come."""
        if not self._is_time(self._prepared_at):
            return MAINTENANCE_INTERVAL
        await self._store.prepare_days(lead, retention.days_ahead(self._store.now()))
        self._prepared_at = self._clock.monotonic()
        return MAINTENANCE_INTERVAL

    async def _prune(self, lead: Lead) -> Micros:
        """Let a share of a day go that may."""
        if self._keep_for is None:
            return MAINTENANCE_INTERVAL
        if self._pruning is None:
            before = self._store.now() - self._keep_for
            days = await self._store.days_to_prune(before, DAYS)
            if not days:
                return MAINTENANCE_INTERVAL
            day = next((day for day in days if day > self._asked_for), days[0])
            self._asked_for = day
            if self._archivist is not None and not await self._archivist.keep(day):
                return LEASE_RETRY_DELAY
            self._pruning = _Pruning(day, before)
        if not await self._store.prune_day(lead, self._pruning.day, self._pruning.before, ROWS):
            self._pruning = None
        return PRUNE_STEP_DELAY

    async def _tidy(self, lead: Lead) -> Micros:
        """Let go of what belonged to what is gone."""
        if self._keep_for is None or not self._is_time(self._tidied_at):
            return MAINTENANCE_INTERVAL
        before = self._store.now() - self._keep_for
        keys = await self._store.forget_keys(lead, before - retention.KEY_LIFE, ROWS)
        versions = await self._store.forget_versions(lead, before, ROWS)
        if keys < ROWS and versions < ROWS:
            self._tidied_at = self._clock.monotonic()
        return PRUNE_STEP_DELAY

    async def _sweep(self, lead: Lead) -> Micros:
        """Let go of objects that nobody refers to. It may take its time beside the keeper's turns, and whoever was
        deposed meanwhile does no harm: what no row refers to will never be referred to again."""
        work = self._sweeping
        if work is None:
            if not self._large_value_store.takes or not self._is_time(self._swept_at, SWEEP_EVERY):
                return MAINTENANCE_INTERVAL
            self._swept_at = self._clock.monotonic()
            self._sweeping = asyncio.create_task(self._large_value_store.sweep(self._store.now()), name="sweep")
            return LEASE_RETRY_DELAY
        if not work.done():
            return LEASE_RETRY_DELAY
        self._sweeping = None
        try:
            if swept := work.result():
                _log.info("objects that nobody referred to are gone", objects=swept)
        except Unavailable as error:
            _log.warning("objects that nobody refers to stay until later", error=str(error))
        return PRUNE_STEP_DELAY

    async def stop(self) -> None:
        await super().stop()
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.wait([self._sweeping])

    def _is_time(self, last: Micros | None, every: Micros = SELDOM) -> bool:
        return last is None or self._clock.monotonic() - last >= every
