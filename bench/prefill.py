"""Creates millions of rows in minutes: copies the rows that a real server wrote for a few jobs, with other ids.

No server may run during that. Afterwards everything is on disk and the statistics of the query planner are up to date,
as in a database that has grown slowly.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable

import asyncpg

from bench.database import Database
from bench.deployment import Deployment
from timeball.domain import retention
from timeball.domain.instant import DAY, Micros
from timeball.stores.postgres.store import make_room_for

_HASTE = ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", "PRAGMA cache_size = -1000000")
"""No durability: if this is lost, only the benchmark fails."""
_SERIES = {
    "sqlite": "(WITH RECURSIVE s(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM s WHERE k < {0}) SELECT k FROM s) AS s",
    "postgresql": "generate_series(1, {0}::bigint) AS s(k)",
}
_HEX = {"sqlite": "printf('%0{1}x', {0})", "postgresql": "lpad(to_hex({0}), {1}, '0')"}
"""How to write a number in hexadecimal digits. An id consists of its kind, milliseconds in hexadecimal, and digits that
make it unique within that millisecond.
"""
_TIMES = ("_at", "_time", "_until")


def copy_jobs(running: Deployment, copies: int, *, over: float = 0.0) -> None:
    """Copy every job. The fires of the copies are distributed over this many seconds."""
    step = int(over * 1e6 / copies)

    def expression(column: str) -> str:
        match column:
            case "id":
                made = _HEX[running.store].format(f"t.created_at / 1000 - {copies + 1} + s.k", 12)
                return f"'j_' || {made} || substr(t.id, 15)"
            case "next_fire_at" | "plan_at":
                return f"t.{column} + s.k * {step}"
            case _:
                return f"t.{column}"

    _copy(running, "jobs", copies, expression)


def copy_history(running: Deployment, copies: int, *, every: float) -> None:
    """Copy every run of the history: this many earlier runs of the same job, `every` seconds apart."""
    step = int(every * 1e6)
    if running.store == "postgresql":
        oldest = running.count("SELECT min(created_at) FROM history") - copies * step
        asyncio.run(_make_room(running.dsn, range(retention.day_of(oldest), time.time_ns() // 1_000, DAY)))
    _age_jobs(running, copies * step)

    def expression(column: str) -> str:
        earlier = f"({copies + 1} - s.k) * {step}"
        if column == "id":
            made = _HEX[running.store].format(f"(t.created_at - {earlier}) / 1000", 12)
            return f"'r_' || {made} || substr(t.id, 15)"
        return f"t.{column} - {earlier}" if column.endswith(_TIMES) else f"t.{column}"

    _copy(running, "history", copies, expression)


def _age_jobs(running: Deployment, age: Micros) -> None:
    """Make jobs older than their oldest run, by changing their ids, which contain the time."""
    made = _HEX[running.store].format(f"j.created_at / 1000 - {age // 1_000}", 12)
    older = f"(SELECT 'j_' || {made} || substr(j.id, 15) FROM jobs j WHERE j.id = {{}})"
    with running.database(writable=True) as database:
        for table in ("history", "job_tags"):
            database.execute(f"UPDATE {table} SET job_id = {older.format(f'{table}.job_id')}")
        database.execute(f"UPDATE jobs SET id = {older.format('jobs.id')}, created_at = created_at - {age}")


async def _make_room(dsn: str, days: Iterable[Micros]) -> None:
    """Create a partition for each day, as if a server had been running every day."""
    connection = await asyncpg.connect(dsn)
    async with connection.transaction():
        await make_room_for(connection, days)
    await connection.close()


def _copy(running: Deployment, table: str, copies: int, expression: Callable[[str], str]) -> None:
    with running.database(writable=True) as database:
        for pragma in _HASTE if running.store == "sqlite" else ():
            database.execute(pragma)
        columns = _columns(database, running.store, table)
        series = _SERIES[running.store].format(copies)
        values = ", ".join(expression(column) for column in columns)
        database.execute(f"CREATE TEMPORARY TABLE template AS SELECT * FROM {table}")
        database.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {series} CROSS JOIN template AS t"
        )
        database.execute("DROP TABLE template")
        if running.store == "postgresql":
            database.execute(f"VACUUM (ANALYZE) {table}")
            database.execute("CHECKPOINT")
    os.sync()


def _columns(database: Database, store: str, table: str) -> list[str]:
    if store == "sqlite":
        return [name for (name,) in database.rows(f"SELECT name FROM pragma_table_info('{table}')")]
    return [
        name
        for (name,) in database.rows(
            f"SELECT attname FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped"
        )
    ]
