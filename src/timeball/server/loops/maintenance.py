"""The maintenance loop of a server. It creates the history partitions of the coming days, adds what finished runs used
to the sums of usage, recounts the stored bytes of tenants with a quota of them, and deletes data that is no longer
needed: old runs, idempotency keys of deleted jobs, job versions that no run uses, old statistics, objects in the object
storage that no row refers to, and tenants whose deletion a request began. Days are archived before their runs are
deleted, if an archive is configured.

Only the server that holds the maintenance lease does this. If two servers believe that they hold it, the store accepts
only the changes of the newer holder. Each turn does at most one small step of each duty, so that neither other
transactions nor other duties wait for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog
from msgspec import Struct

from timeball.domain import ids, retention
from timeball.domain.errors import Unavailable
from timeball.domain.instant import HOUR, MILLISECOND, MINUTE, SECOND, Micros
from timeball.operation.context import OperationContext
from timeball.operation.tenants.deleter import TenantDeleter
from timeball.ports.store.maintenance import Archiver, Deposed, Lead, Occupied
from timeball.ports.wakeups import Topic
from timeball.server.loop import Loop
from timeball.server.wakeups import LocalWakeups, Subscription

LEASE_NAME: Final = "housekeeping"
LEASE: Final = 3 * MINUTE
MAINTENANCE_INTERVAL: Final = MINUTE
LEASE_RETRY_DELAY: Final = SECOND
"""Microseconds before the loop asks again whether a day is archived, or whether the removal of objects has ended."""
PRUNE_STEP_DELAY: Final = 20 * MILLISECOND
"""Microseconds between two steps of deleting old rows, so that other transactions get their turn."""
STEP_RETRY_DELAY: Final = 10 * SECOND
"""Maximum number of microseconds before a step is retried that failed, or that would have had to wait for locks of
other transactions. If another duty is due earlier, the step is retried with it."""
RARE_INTERVAL: Final = HOUR
"""Microseconds between two runs of a duty that is rarely needed."""
SWEEP_EVERY: Final = 6 * HOUR
"""Microseconds between two searches for unused objects. A search lists all objects."""
ROWS: Final = 500
"""Approximate number of rows that one step deletes."""
USAGE_ROWS: Final = 1_000
"""Approximate number of runs that one step adds to the sums of usage."""
FULL: Final = 0.9
"""The share of its quota of stored bytes from which on a tenant is recounted more often than once an hour."""
RECOUNT_PAUSE: Final = 50
"""Minimum time between two recounts of the stored bytes of a tenant, as a multiple of the time that one takes."""
DAYS: Final = 100
"""Maximum number of days that one query returns."""
_log = structlog.get_logger()


class _Pruning(Struct, frozen=True):
    day: Micros
    before: Micros
    """Runs that ended before this instant may be deleted. If there is an archive, they are in it, and their usage is in
    the sums."""


class MaintenanceLoop(Loop):
    name = "maintenance"
    is_required = False  # old history that stays longer does no harm
    max_time_without_success = LEASE
    topics = (Topic.MAINTENANCE,)

    def __init__(
        self,
        context: OperationContext,
        wakeups: LocalWakeups,
        *,
        keep_for: Micros | None = retention.DEFAULT,
        archiver: Archiver | None = None,
    ) -> None:
        """`keep_for` is the time for which finished runs are kept; None keeps all. With an archiver, a run is deleted
        only after it was archived.
        """
        super().__init__(context.clock, wakeups)
        self._store = context.store
        self._keep_for = keep_for
        self._archiver = archiver
        self._holder = ids.make("s", 0, context.rng)
        self._sleeps_until: Micros = 0
        self._pruning: _Pruning | None = None
        self._asked_for: Micros = 0
        self._prepared_at: Micros | None = None
        self._forgotten_at: Micros | None = None
        self._large_value_store = context.large_value_store
        self._sweeping: asyncio.Task[int] | None = None
        self._swept_at: Micros | None = None
        self._deleter = TenantDeleter(context)
        self._deleting: asyncio.Task[None] | None = None
        self._recounting: asyncio.Task[None] | None = None
        self._recounted_at: dict[str, Micros] = {}
        self._limits = context.limits
        self._is_wanted = Subscription()

    def start(self) -> None:
        if self._task is None:
            self._wakeups.subscribe(Topic.MAINTENANCE, self._is_wanted)
        super().start()

    async def turn(self) -> Micros:
        left = self._sleeps_until - self._clock.monotonic()
        if left > 0 and not self._is_wanted.is_set():
            return left
        self._is_wanted.clear()
        lead = await self._store.lead(LEASE_NAME, self._holder, LEASE)
        if lead is None:
            return self._sleep(MAINTENANCE_INTERVAL)
        try:
            failures: list[Exception] = []
            duties = (
                self._prepare,
                self._count_usage,
                self._prune,
                self._forget,
                self._forget_statistics,
                self._sweep,
                self._delete_tenants,
                self._recount_stored_bytes,
            )
            delay = min([await self._attempt(duty, lead, failures) for duty in duties])
            if failures:  # after every duty had its turn
                self._sleep(delay)
                raise failures[0]
        except Deposed as error:
            _log.warning("another server holds the maintenance lease now", error=str(error))
            self._pruning = None
            delay = MAINTENANCE_INTERVAL
        return self._sleep(delay)

    @staticmethod
    async def _attempt(duty: Callable[[Lead], Awaitable[Micros]], lead: Lead, failures: list[Exception]) -> Micros:
        """Run one step of a duty and return how long the duty can wait. An error is added to `failures`, so that the
        other duties still run. `Deposed` (the lease is lost) and `Unavailable` end the turn."""
        try:
            return await duty(lead)
        except Occupied:
            return STEP_RETRY_DELAY
        except (Deposed, Unavailable):
            raise
        except Exception as error:
            failures.append(error)
            return STEP_RETRY_DELAY

    def _sleep(self, length: Micros) -> Micros:
        self._sleeps_until = self._clock.monotonic() + length
        return length

    async def _prepare(self, lead: Lead) -> Micros:
        """Create the partitions of the coming days, once an hour. Return the microseconds until the duty is due
        again."""
        if not self._is_time(self._prepared_at):
            return MAINTENANCE_INTERVAL
        await self._store.prepare_days(lead, retention.days_ahead(self._store.now()))
        self._prepared_at = self._clock.monotonic()
        return MAINTENANCE_INTERVAL

    async def _count_usage(self, lead: Lead) -> Micros:
        """Add what some runs used to the sums. Return the microseconds until the next step."""
        return PRUNE_STEP_DELAY if await self._store.count_usage(lead, USAGE_ROWS) else MAINTENANCE_INTERVAL

    async def _prune(self, lead: Lead) -> Micros:
        """Delete some rows of a day with runs that are older than the retention, the oldest day first. While a day is
        not archived, later turns continue with the days after it. Return the microseconds until the next step."""
        if self._keep_for is None:
            return MAINTENANCE_INTERVAL
        if self._pruning is None:
            before = min(self._store.now() - self._keep_for, await self._store.usage_counted_until())
            days = await self._store.days_to_prune(before, DAYS)
            if not days:
                return MAINTENANCE_INTERVAL
            day = next((day for day in days if day > self._asked_for), days[0])
            self._asked_for = day
            if self._archiver is not None and not await self._archiver.keep(day):
                return LEASE_RETRY_DELAY
            self._pruning = _Pruning(day, before)
        if not await self._store.prune_day(lead, self._pruning.day, self._pruning.before, ROWS):
            self._pruning = None
        return PRUNE_STEP_DELAY

    async def _forget(self, lead: Lead) -> Micros:
        """Delete some idempotency keys whose jobs are deleted, and some job versions that no run uses any more. Return
        the microseconds until the next step."""
        if self._keep_for is None or not self._is_time(self._forgotten_at):
            return MAINTENANCE_INTERVAL
        before = self._store.now() - self._keep_for
        keys = await self._store.forget_keys(lead, before - retention.KEY_LIFE, ROWS)
        versions = await self._store.forget_versions(lead, before, ROWS)
        if keys < ROWS and versions < ROWS:
            self._forgotten_at = self._clock.monotonic()
        return PRUNE_STEP_DELAY

    async def _forget_statistics(self, lead: Lead) -> Micros:
        """Delete statistics that are older than `tally.WIDTH_LIFE`. Return the microseconds until the next step."""
        return PRUNE_STEP_DELAY if await self._store.forget_statistics(lead) else MAINTENANCE_INTERVAL

    async def _sweep(self, lead: Lead) -> Micros:
        """Delete large values in object storage that no row refers to. The search runs in a task of its own, since it
        may take long. A server that loses the lease during the search may still delete them: no row ever begins to
        refer to such an old object. Return the microseconds until the next step."""
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
                _log.info("unused objects were deleted", objects=swept)
        except Unavailable as error:
            _log.warning("unused objects could not be deleted now", error=str(error))
        return PRUNE_STEP_DELAY

    async def _delete_tenants(self, lead: Lead) -> Micros:
        """Continue the deletion of tenants, in a task of its own, since each of its steps may take a moment. Return the
        microseconds until this duty checks the task again."""
        work = self._deleting
        if work is None:
            if not await self._store.deletions():
                return MAINTENANCE_INTERVAL
            self._deleting = asyncio.create_task(self._deleter.run(lead), name="tenant-deleter")
            return LEASE_RETRY_DELAY
        if not work.done():
            return LEASE_RETRY_DELAY
        self._deleting = None
        try:
            work.result()
        except Unavailable as error:
            _log.warning("a tenant cannot be deleted now", error=str(error))
            return STEP_RETRY_DELAY
        return PRUNE_STEP_DELAY

    async def _recount_stored_bytes(self, lead: Lead) -> Micros:
        """Recount the stored bytes of the tenants with a quota of them: once an hour, and more often while at least
        `FULL` (90 %) of the quota is used, since rows that were deleted since the last recount make room. The recount
        runs in a task of its own, since it reads all history of the tenant. Return the microseconds until this duty
        checks the task again."""
        work = self._recounting
        if work is not None and not work.done():
            return MAINTENANCE_INTERVAL
        self._recounting = None
        if work is not None:
            work.result()
        limits = {name: each.stored_bytes for name, each in self._limits.by_tenant.items()}
        quotas = {name: limit for name, limit in limits.items() if limit is not None}
        self._recounted_at = {name: at for name, at in self._recounted_at.items() if name in quotas}
        if quotas:
            self._recounting = asyncio.create_task(self._recount_all(lead, quotas), name="stored-bytes")
        return MAINTENANCE_INTERVAL

    async def _recount_all(self, lead: Lead, quotas: Mapping[str, int]) -> None:
        for tenant, limit in quotas.items():
            if self._is_time(self._recounted_at.get(tenant)):
                began = self._clock.monotonic()
                stored = await self._store.recount_stored_bytes(lead, tenant)
                now = self._clock.monotonic()
                wait = RARE_INTERVAL
                if stored >= limit * FULL:
                    wait = min(wait, max(MAINTENANCE_INTERVAL, (now - began) * RECOUNT_PAUSE))
                self._recounted_at[tenant] = now - RARE_INTERVAL + wait

    async def stop(self) -> None:
        if self._task is not None:
            self._wakeups.unsubscribe(Topic.MAINTENANCE, self._is_wanted)
        await super().stop()
        for task in (self._sweeping, self._deleting, self._recounting):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])

    def _is_time(self, last: Micros | None, every: Micros = RARE_INTERVAL) -> bool:
        return last is None or self._clock.monotonic() - last >= every
