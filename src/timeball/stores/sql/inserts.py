"""Inserting rows that come in two lengths: those of plain jobs do not pay for columns they do not use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from timeball.domain.run.run import NewRun
from timeball.domain.workflow.workflow import WOVEN
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.schema import (
    NEW_HISTORY,
    NEW_JOBS,
    NEW_RUNS,
    PLACED_JOBS,
    PLANNED_JOBS,
    RULED_HISTORY,
    RULED_RUNS,
    Table,
)
from timeball.stores.sql.statements import query

KEEP_PROFILES = query("keep_profiles")


async def insert_jobs(tx: Tx, rows: Sequence[Row]) -> None:
    """Rows of `rows.new_job_row`."""
    if placed := [row for row in rows if len(row) == len(PLACED_JOBS.columns)]:
        await tx.insert(PLACED_JOBS, placed)
        rows = [row for row in rows if len(row) < len(PLACED_JOBS.columns)]
    await _insert(tx, NEW_JOBS, PLANNED_JOBS, rows)


async def insert_runs(tx: Tx, rows: Sequence[Row]) -> None:
    """Rows of `rows.new_run_row`."""
    await _insert(tx, NEW_RUNS, RULED_RUNS, rows)


async def insert_history(tx: Tx, rows: Sequence[Row]) -> None:
    """Rows of `rows.ended` and `rows.unstarted`."""
    await _insert(tx, NEW_HISTORY, RULED_HISTORY, rows)


async def keep_profiles(tx: Tx, runs: Iterable[NewRun]) -> None:
    """Remember the kinds of runs that not every worker can take, so that whoever claims looks at each of them."""
    if profiles := {run.profile for run in runs if run.profile is not None and run.profile != WOVEN}:
        await tx.execute(KEEP_PROFILES, b=sorted(profiles))


async def _insert(tx: Tx, plain: Table, longer: Table, rows: Sequence[Row]) -> None:
    width = len(plain.columns)
    if others := [row for row in rows if len(row) > width]:
        await tx.insert(longer, others)
        rows = [row for row in rows if len(row) == width]
    if rows:
        await tx.insert(plain, rows)
