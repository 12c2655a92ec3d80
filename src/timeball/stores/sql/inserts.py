"""Inserts of rows of several types. The rows of plain jobs do not include the columns that such jobs do not use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from timeball.stores.sql.changes import record_ends, record_new_runs
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.schema.jobs import NEW_JOBS, PLACED_JOBS, PLANNED_JOBS, TRACED_JOBS, NewJobRow
from timeball.stores.sql.schema.runs import NEW_HISTORY, NEW_RUNS, RULED_HISTORY, RULED_RUNS, NewHistoryRow, NewRunRow
from timeball.stores.sql.schema.table import Table, as_tuple


async def insert_jobs(tx: Tx, rows: Sequence[NewJobRow]) -> None:
    await _insert(tx, (TRACED_JOBS, PLACED_JOBS, PLANNED_JOBS, NEW_JOBS), rows)


async def insert_run_rows(tx: Tx, rows: Sequence[NewRunRow]) -> None:
    record_new_runs(tx, rows)
    await _insert(tx, (RULED_RUNS, NEW_RUNS), rows)


async def insert_history(tx: Tx, rows: Sequence[NewHistoryRow]) -> None:
    record_ends(tx, rows)
    await _insert(tx, (RULED_HISTORY, NEW_HISTORY), rows)


async def _insert(tx: Tx, tables: Iterable[Table], rows: Sequence[Struct]) -> None:
    """Insert each row into the columns that its type has, with one statement for all rows of a type."""
    types = {type(row) for row in rows}
    for table in tables:
        if table.row in types:
            alike = rows if len(types) == 1 else [row for row in rows if type(row) is table.row]
            await tx.insert(table, [*map(as_tuple, alike)])
