"""History on PostgreSQL: one partition per day, created in advance and dropped as a whole.

    history ── history_20261114      the runs that were created on that day, whenever they ended
            ├─ history_20261115      the same for `attempts` and `logs`
            └─ history_rest          rows of days without a partition

A day is removed in three steps, none of which blocks other transactions for long. First its partitions are detached
from their tables. Then its runs are added to the daily sums, some at a time; `departures` stores the progress. Then the
partitions are dropped.

Attaching and detaching needs a lock, and every later transaction would wait behind the request for it. So the request
gives up after 100 ms and is repeated later.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import lru_cache, partial
from typing import Final

import asyncpg

from timeball.domain import ids, instant, retention
from timeball.domain.instant import DAY, Micros
from timeball.ports.store.maintenance import Lead, Occupied
from timeball.stores.postgres.errors import Locked
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.maintenance.maintenance import (
    Maintenance,
    add_sums,
    check,
    drop_jobs,
    drop_what_runs_had,
    lock_one_shots,
)
from timeball.stores.sql.schema.tables import TABLES
from timeball.stores.sql.statements import query

DAILY: Final = {"history": "id", "attempts": "run_id", "logs": "run_id"}
"""The tables with one partition per day, and the column that determines the day."""
PREPARING: Final = 7_463_911_302
"""The advisory lock for creating and removing partitions."""

NOW = query("now")
DAYS_WITH_ROOM = query("days_with_room")
DEPARTURES = query("departures")
DEPART = query("depart")
DEPARTED_UPTO = query("departed_upto")
HAVE_DEPARTED = query("have_departed")
STAYING = query("staying")


@lru_cache(maxsize=256)
def _statement(text: str) -> Query:
    """Return a statement whose table names contain a day."""
    return Query("of_day", text)


NO_WAITING: Final = _statement("SET LOCAL lock_timeout = '100ms'")
_ALONE: Final = _statement(f"SELECT pg_advisory_xact_lock({PREPARING})")


class DailyPartitions(Maintenance):
    async def prepare_days(self, lead: Lead, days: Sequence[Micros]) -> None:
        for day in sorted(set(days) - await self._db.read(_prepared)):
            async with not_waiting():
                await self._db.write(partial(_prepare_as, lead, day))

    async def days_to_prune(self, before: Micros, limit: int) -> list[Micros]:
        async def departing(tx: Tx) -> set[Micros]:
            return {day for day, _ in await tx.fetch(DEPARTURES)}

        days = await self._db.read(_prepared) | await self._db.read(departing)
        days |= set(await super().days_to_prune(before, limit))
        return sorted(day for day in days if retention.is_over(day, before))[:limit]

    async def prune_day(self, lead: Lead, day: Micros, before: Micros, limit: int) -> bool:
        async def work(tx: Tx) -> bool:
            await check(tx, lead)
            departing: dict[Micros, str] = dict(await tx.fetch(DEPARTURES))
            if day in departing:
                await _go_on(tx, day, departing[day], before, limit)
            elif day in await _prepared(tx):
                await _leave(tx, day)
            else:
                return False
            return True

        async with not_waiting():
            return await self._db.write(work) or await super().prune_day(lead, day, before, limit)


async def prepare(tx: Tx, day: Micros) -> None:
    """Create the partitions of a day, unless they exist or the default partition has rows of that day: these would have
    to be moved.

    The partitions are attached when they are complete: creating them in place would lock the table for all others.
    """
    await tx.execute(NO_WAITING)
    await tx.execute(_ALONE)
    since, until = ids.first_run(day), ids.first_run(day + DAY)
    if day in await _prepared(tx):
        return
    for table, column in DAILY.items():
        taken = _statement(f"SELECT 1 FROM {table}_rest WHERE {column} >= :since AND {column} < :until LIMIT 1")
        if await tx.fetch(taken, since=since, until=until):
            return
    for table in DAILY:
        partition = name(table, day)
        await _run(
            tx,
            f"CREATE TABLE {partition} (LIKE {table} INCLUDING DEFAULTS INCLUDING INDEXES)",
            f"ALTER TABLE {table} ATTACH PARTITION {partition} FOR VALUES FROM ('{since}') TO ('{until}')",
        )


async def _prepare_as(lead: Lead, day: Micros, tx: Tx) -> None:
    await check(tx, lead)
    await prepare(tx, day)


async def prepare_days_ahead(tx: Tx) -> None:
    ((now,),) = await tx.fetch(NOW)
    for day in sorted(set(retention.days_ahead(now)) - await _prepared(tx)):
        await prepare(tx, day)


def name(table: str, day: Micros) -> str:
    return f"{table}_{instant.to_datetime(day):%Y%m%d}"


async def _prepared(tx: Tx) -> set[Micros]:
    """Return the days that have partitions."""
    return {int(day) * instant.SECOND for (day,) in await tx.fetch(DAYS_WITH_ROOM)}


async def _leave(tx: Tx, day: Micros) -> None:
    """Detach the partitions of a day. Rows of runs that must stay (see the statement `staying`), such as live runs, are
    copied back to the tables in the same transaction."""
    await tx.execute(NO_WAITING)
    await tx.execute(_ALONE)
    since, until = ids.first_run(day), ids.first_run(day + DAY)
    await _run(tx, *(f"ALTER TABLE {table} DETACH PARTITION {name(table, day)}" for table in DAILY))
    await _run(tx, f"ALTER TABLE {name('history', day)} INHERIT departing")
    await tx.execute(DEPART, day=day, since=since)
    staying = [run_id for (run_id,) in await tx.fetch(STAYING, since=since, until=until)]
    if staying:
        await _bring_back(tx, day, staying)
        await tx.execute(_statement(f"DELETE FROM {name('history', day)} WHERE id {{in b: text}}"), b=staying)


async def _go_on(tx: Tx, day: Micros, upto: str, before: Micros, limit: int) -> None:
    """Add the next `limit` runs of a detached day, after the id `upto`, to the daily sums, and delete their rows in
    other tables. Runs that ended at `before` or later are copied back to the history instead. If no run is left, drop
    the partitions."""
    partition = name("history", day)
    rows = await tx.fetch(
        _statement(
            "SELECT id, finished_at, job_id, fire_time - fire_time % 86400000000, verdict, fires, origin"
            f" FROM {partition} WHERE id > :upto ORDER BY id LIMIT :limit",
        ),
        upto=upto,
        limit=limit,
    )
    if not rows:
        await tx.execute(NO_WAITING)
        await _run(tx, *(f"DROP TABLE {name(table, day)}" for table in DAILY))
        await tx.execute(HAVE_DEPARTED, day=day)
        return
    if late := [run_id for run_id, finished_at, *_ in rows if finished_at >= before]:
        await _bring_back(tx, day, late)
    gone = {run_id: summed for run_id, finished_at, *summed in rows if finished_at < before}
    over = await lock_one_shots(tx, {job_id for job_id, *_ in gone.values()})
    await drop_what_runs_had(tx, list(gone))
    await add_sums(tx, gone.values(), await drop_jobs(tx, over))
    *_, (last_id, *_) = rows
    await tx.execute(DEPARTED_UPTO, day=day, upto=last_id)


async def _bring_back(tx: Tx, day: Micros, run_ids: Iterable[str]) -> None:
    for table, column in DAILY.items():
        columns = ", ".join(TABLES[table].columns)
        copy = f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {name(table, day)} WHERE {column} {{in b: text}}"
        await tx.execute(_statement(copy), b=list(run_ids))


async def _run(tx: Tx, *statements: str) -> None:
    """Execute statements that take no parameters."""
    for statement in statements:
        await tx.execute(_statement(statement))


@contextlib.asynccontextmanager
async def not_waiting() -> AsyncIterator[None]:
    """Raise `Occupied` if, in the block, a lock is not available in time, or the default partition turns out to have a
    row of the day. The caller tries again later."""
    try:
        yield
    except (Locked, asyncpg.LockNotAvailableError, asyncpg.CheckViolationError) as error:
        raise Occupied(str(error)) from error
