"""Inserting rows of several types: those of plain jobs do not pay for columns they do not use."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from timeball.domain.run.run import NewRun
from timeball.domain.workflow.definition import WOVEN
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.schema import (
    NEW_HISTORY,
    NEW_JOBS,
    NEW_RUNS,
    PLACED_JOBS,
    PLANNED_JOBS,
    RULED_HISTORY,
    RULED_RUNS,
    NewHistoryRow,
    NewJobRow,
    NewRunRow,
    Table,
    as_tuple,
)
from timeball.stores.sql.statements import query

KEEP_PROFILES = query("keep_profiles")


async def insert_jobs(tx: Tx, rows: Iterable[NewJobRow]) -> None:
    await _insert(tx, (PLACED_JOBS, PLANNED_JOBS, NEW_JOBS), rows)


async def insert_runs(tx: Tx, rows: Iterable[NewRunRow]) -> None:
    await _insert(tx, (RULED_RUNS, NEW_RUNS), rows)


async def insert_history(tx: Tx, rows: Iterable[NewHistoryRow]) -> None:
    await _insert(tx, (RULED_HISTORY, NEW_HISTORY), rows)


async def keep_profiles(tx: Tx, runs: Iterable[NewRun]) -> None:
    """Remember the kinds of runs that not every worker can take, so that whoever claims looks at each of them."""
    if profiles := {run.profile for run in runs if run.profile is not None and run.profile != WOVEN}:
        await tx.execute(KEEP_PROFILES, b=sorted(profiles))


async def _insert(tx: Tx, tables: Iterable[Table], rows: Iterable[Struct]) -> None:
    """Insert each row into the columns that its type has: one statement for all rows of a type."""
    by_type: dict[type[Struct], list[Row]] = {}
    for row in rows:
        by_type.setdefault(type(row), []).append(as_tuple(row))
    for table in tables:
        if found := by_type.get(table.row):
            await tx.insert(table, found)
