"""A recount of usage from the runs and attempts themselves, to compare with the sums of the store (I23)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from unittest import mock

import asyncpg

from timeball import system
from timeball.domain.instant import HOUR, Micros
from timeball.domain.retention import day_of
from timeball.domain.run.run import Attempt, Run
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.domain.usage import USAGE_KEYS, PriceList, Usage, UsageKey
from timeball.ports.store.store import Store
from timeball.ports.store.tenants import UsageFilter
from timeball.stores.postgres.store import PostgresStore
from timeball.stores.sql.maintenance import usage as counting

Counts = dict[tuple[str, str, Micros], dict[str, int]]
"""Counts by tenant, job and day."""
_LIMIT = 3


async def usage(
    store: Store,
    by: Sequence[UsageKey] = USAGE_KEYS,
    tenants: Iterable[str] = (DEFAULT_TENANT,),
    *,
    limit: int = _LIMIT,
    **fields: Any,
) -> list[Usage]:
    """Return all pages."""
    prices: dict[str, PriceList] = await store.price_lists([*tenants])
    where = UsageFilter(**{"tenants": prices, "since": 0, "until": 1 << 60, "by": by, **fields})
    found: list[Usage] = []
    cursor: str | None = None
    while True:
        page = await store.usage(where, cursor, limit)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return found


def counted(found: Iterable[Usage]) -> Counts:
    """Return what the store says, without groups in which nothing was used."""
    counts: Counts = {}
    for each in found:
        assert each.tenant is not None
        assert each.job is not None
        assert each.day is not None
        some = each.amounts
        counts[each.tenant, each.job, each.day] = {
            "runs": some.runs, "attempts": some.attempts, "micros": some.micros
        }  # fmt: skip
    return {key: some for key, some in counts.items() if any(some.values())}


def recount(runs: Iterable[tuple[Run, Sequence[Attempt]]]) -> Counts:
    """Count the attempts of runs, given with those before the last one."""
    counts: dict[tuple[str, str, Micros], Counter[str]] = {}

    def add(run: Run, at: Micros, **amounts: int) -> None:
        counts.setdefault((run.tenant, run.job_id, day_of(at)), Counter(runs=0, attempts=0, micros=0)).update(amounts)

    for run, earlier in runs:
        for attempt in earlier:
            if attempt.started_at is not None:
                took = attempt.finished_at - attempt.started_at
                add(run, attempt.finished_at, attempts=1, micros=took)
        if run.finished_at is not None and run.is_terminal and run.fires == 1:
            if run.attempt_started_at is not None:
                add(run, run.finished_at, attempts=1, micros=run.finished_at - run.attempt_started_at)
            if run.started_at is not None:
                add(run, run.finished_at, runs=1)
    return {key: dict(some) for key, some in counts.items() if any(some.values())}


async def recounted(store: Store, run_ids: Iterable[str]) -> Counts:
    runs = await store.runs([*run_ids])
    return recount([(run, await store.attempts(run.id)) for run in runs.values()])


async def check_usage_of(dsn: str) -> int:
    """Compare the usage in a PostgreSQL store with a recount of its rows: before the runs are added to the sums, and
    after. Return the number of attempts."""
    connection = await asyncpg.connect(dsn)
    rows = await connection.fetch(
        "SELECT tenant, job_id, finished_at AS at, attempt_started_at AS began, started_at FROM history WHERE fires = 1"
        " UNION ALL SELECT r.tenant, r.job_id, a.finished_at, a.started_at, NULL FROM attempts a"
        " JOIN (SELECT id, tenant, job_id FROM history UNION SELECT id, tenant, job_id FROM runs) r ON r.id = a.run_id"
    )
    await connection.execute("DELETE FROM leases")  # their holder is gone
    await connection.close()
    counts: dict[tuple[str, str, Micros], Counter[str]] = {}
    for row in rows:
        some = counts.setdefault(
            (row["tenant"], row["job_id"], day_of(row["at"])), Counter(runs=0, attempts=0, micros=0)
        )
        some["runs"] += row["started_at"] is not None
        if row["began"] is not None:
            some.update(attempts=1, micros=row["at"] - row["began"])
    expected = {key: dict(some) for key, some in counts.items() if any(some.values())}
    store = PostgresStore(dsn, monotonic=system.monotonic)
    await store.open()
    try:
        assert counted(await usage(store, limit=1_000)) == expected
        lead = await store.lead("housekeeping", "s_recount", HOUR)
        assert lead is not None
        with mock.patch.object(counting, "COUNT_DELAY", -HOUR):
            while await store.count_usage(lead, 100):
                pass
        assert await store.usage_counted_until() > store.now()
        assert counted(await usage(store, limit=1_000)) == expected
    finally:
        await store.close()
    return sum(some["attempts"] for some in expected.values())
