"""The quotas of tenants, as transactions that create jobs and runs check them.

Such a transaction locks the row of the tenant in `quota_use`, and counts after that, so that concurrent transactions
never exceed a quota together. Jobs are counted from their rows, which needs no bookkeeping; the runs of a day and the
stored bytes are counters. Tenants without quotas cost no statement. Module `stored_bytes` counts output and results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap
from typing import Final

import msgspec

from timeball.domain import quota
from timeball.domain.errors import TimeballError
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job
from timeball.domain.quota import KnownQuotas, RunsOfDays
from timeball.domain.run.run import NewRun
from timeball.domain.tenant import NO_QUOTAS, QuotaLimits
from timeball.ports.store.jobs import Amendment, Submission
from timeball.stores.sql.driver import Tx, scalar
from timeball.stores.sql.rows.values import as_json
from timeball.stores.sql.schema.table import as_tuple
from timeball.stores.sql.schema.tenants import QUOTA_USE, QuotaUseRow
from timeball.stores.sql.statements import query

LOCK_QUOTA_USE = query("lock_quota_use")
WRITE_QUOTA_USE = query("write_quota_use")
READ_QUOTA_USE = query("read_quota_use")
ADD_STORED_BYTES = query("add_stored_bytes")
COUNT_JOBS = query("count_jobs_that_may_fire")

_NO_RUNS: Final = "{}"
_decode_days = msgspec.json.Decoder(dict[int, int]).decode


class QuotaBatch:
    """What the tenants of one transaction may still create. Their rows are locked."""

    def __init__(
        self, tx: Tx, limits: Mapping[str, QuotaLimits], days: dict[str, RunsOfDays], stored: Mapping[str, int]
    ) -> None:
        self._tx = tx
        self._limits = limits
        self._days = days
        self._changed: set[str] = set()
        self._stored = stored
        self._added: Counter[str] = Counter()

    def runs_of(self, tenant: str) -> RunsOfDays | None:
        """Return the counts of the runs of a tenant; None: it has no quota of them."""
        return self._days.get(tenant)

    def take_run(self, tenant: str, at: Micros) -> None:
        """Count a run that begins at an instant."""
        if (days := self._days.get(tenant)) is not None:
            days.take(at)
            self._changed.add(tenant)

    def limits_bytes(self, tenant: str) -> bool:
        return self._limits.get(tenant, NO_QUOTAS).stored_bytes is not None

    def require_bytes(self, tenant: str, size: int) -> None:
        """Raise `QuotaExceeded` if the quota has no room for bytes that are to be stored."""
        limit = self._limits.get(tenant, NO_QUOTAS).stored_bytes
        if limit is not None and self._stored[tenant] + self._added[tenant] + size > limit:
            raise quota.too_many_bytes(limit)

    def take_bytes(self, tenant: str, size: int) -> None:
        """Count bytes that are stored."""
        self._added[tenant] += size

    def require_runs(self, runs: Sequence[NewRun], now: Micros) -> None:
        """Count new runs, and the bytes of the specs that users edited for them. Raise `DailyQuotaExceeded` or
        `QuotaExceeded` if a quota has no room for all of them."""
        for run in runs:
            days = self._days.get(run.tenant)
            if days is not None and not days.has_room(run.eligible_at):
                raise quota.too_many_runs(days.limit, now)
            if run.spec is not None and self.limits_bytes(run.tenant):
                size = quota.size_of_spec(run.spec)
                self.require_bytes(run.tenant, size)
                self.take_bytes(run.tenant, size)
            self.take_run(run.tenant, run.eligible_at)

    async def refused(self, submissions: Sequence[tuple[int, Submission]], now: Micros) -> dict[int, TimeballError]:
        """Count new jobs and their runs, in their order. Return the errors of those that a quota has no room for, by
        their positions."""
        room: dict[str, int] = {}
        errors: dict[int, TimeballError] = {}
        for at, each in submissions:
            tenant = each.job.tenant
            limits = self._limits.get(tenant, NO_QUOTAS)
            counts = limits.jobs is not None and quota.may_fire(each.job)
            if counts and limits.jobs is not None:
                if tenant not in room:
                    room[tenant] = limits.jobs - await jobs_that_may_fire(self._tx, tenant, limits.jobs)
                if room[tenant] <= 0:
                    errors[at] = quota.too_many_jobs(limits.jobs)
                    continue
            size = quota.size_of_spec(each.job.spec) if limits.stored_bytes is not None else 0
            try:
                if size:
                    self.require_bytes(tenant, size)
                self.require_runs(each.runs, now)
            except TimeballError as error:
                errors[at] = error
                continue
            self.take_bytes(tenant, size)
            if counts:
                room[tenant] -= 1
        return errors

    async def write(self) -> None:
        """Store the counts that have changed."""
        if self._changed:
            rows = [(tenant, as_json(self._days[tenant].days)) for tenant in sorted(self._changed)]
            await self._tx.execute(WRITE_QUOTA_USE, b=rows)
        await add_bytes(self._tx, self._added)


async def open_quotas(
    tx: Tx, known: KnownQuotas, tenants: Iterable[str], now: Micros, *, of_jobs: bool = False, of_bytes: bool = False
) -> QuotaBatch | None:
    """Lock and return the quotas of tenants; None if none of them has a quota that matters. Quotas of runs per day
    always matter, those of jobs if `of_jobs`, those of stored bytes if `of_bytes`."""
    if not known.by_tenant:
        return None
    found = {tenant: known.by_tenant[tenant] for tenant in sorted(set(tenants)) if tenant in known.by_tenant}
    limits = {
        tenant: each
        for tenant, each in found.items()
        if (of_jobs and each.jobs is not None)
        or (of_bytes and each.stored_bytes is not None)
        or each.runs_per_day is not None
    }
    if not limits:
        return None
    used = await lock_use(tx, limits)
    days = {
        tenant: quota.runs_of_days(each.runs_per_day, now, _decode_days(used[tenant].runs_of_days))
        for tenant, each in limits.items()
        if each.runs_per_day is not None
    }
    return QuotaBatch(tx, limits, days, {tenant: each.stored_bytes for tenant, each in used.items()})


async def lock_use(tx: Tx, tenants: Iterable[str]) -> dict[str, QuotaUseRow]:
    """Lock and return what tenants use of their quotas."""
    names = sorted(tenants)
    await tx.insert_missing(QUOTA_USE, [as_tuple(QuotaUseRow(tenant, _NO_RUNS, 0)) for tenant in names])
    return {row.tenant: row for row in starmap(QuotaUseRow, await tx.fetch(LOCK_QUOTA_USE, b=names))}


async def add_bytes(tx: Tx, added: Mapping[str, int]) -> None:
    """Count bytes that were stored for tenants."""
    if rows := sorted((tenant, size) for tenant, size in added.items() if size):
        await tx.execute(ADD_STORED_BYTES, b=rows)


async def require_quotas(
    tx: Tx, known: KnownQuotas, changes: Sequence[tuple[Amendment, Job, Job]], now: Micros
) -> None:
    """Raise `QuotaExceeded` if amended jobs exceed the quota of jobs that may fire, or of stored bytes. `changes` has
    each amendment, with its job before and after it. The changed jobs are written already. An amendment that neither
    lets a job fire again nor changes its spec, such as a pause, is never refused."""
    if not known.by_tenant:
        return
    await _require_jobs(tx, known, changes, now)
    grown = [(old, job) for _, old, job in changes if job.spec is not old.spec and job.spec != old.spec]
    quotas = await open_quotas(tx, known, (job.tenant for _, job in grown), now, of_bytes=True)
    if quotas is not None:
        for old, job in grown:
            if quotas.limits_bytes(job.tenant):
                size = quota.growth(old.spec, job.spec)
                quotas.require_bytes(job.tenant, size)
                quotas.take_bytes(job.tenant, size)
        await quotas.write()


async def _require_jobs(tx: Tx, known: KnownQuotas, changes: Sequence[tuple[Amendment, Job, Job]], now: Micros) -> None:
    rescheduled = [(old, job) for each, old, job in changes if not each.keep_schedule]
    woken = {job.tenant for old, job in rescheduled if quota.may_fire(job) and not quota.may_fire(old)}
    await open_quotas(tx, known, woken, now, of_jobs=True)
    for tenant in woken:
        limit = known.by_tenant.get(tenant, NO_QUOTAS).jobs
        if limit is not None and await jobs_that_may_fire(tx, tenant, limit + 1) > limit:
            raise quota.too_many_jobs(limit)


async def jobs_that_may_fire(tx: Tx, tenant: str, most: int) -> int:
    """Return the number of jobs of a tenant that may still fire. It is exact if it is less than `most`; otherwise there
    may be more."""
    count: int = scalar(await tx.fetch(COUNT_JOBS, tenant=tenant, most=most))
    return count


async def runs_of_today(tx: Tx, tenant: str, now: Micros) -> int:
    """Return the number of runs that begin today, as they were counted for the quota; 0 if none were counted."""
    found = await tx.fetch(READ_QUOTA_USE, tenant=tenant)
    return quota.runs_of_days(0, now, _decode_days(found[0][1])).begun_today if found else 0


async def stored_bytes_of(tx: Tx, tenant: str) -> int:
    """Return the number of bytes that are stored for a tenant, as they were counted for the quota; 0 if none were
    counted."""
    found = await tx.fetch(READ_QUOTA_USE, tenant=tenant)
    return int(found[0][2]) if found else 0
