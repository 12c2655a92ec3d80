"""Insert runs: from submits, plans, requests of users, backfills and workflows. Only runs that are assigned to workers
on submit enter the store elsewhere, in `runs/assign_on_submit.py`."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from timeball.domain.instant import Micros
from timeball.domain.run.lifecycle import Hold
from timeball.domain.run.run import NewRun
from timeball.domain.workflow.definition import WORKFLOW_PROFILE
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.inserts import insert_run_rows
from timeball.stores.sql.rows.runs import new_run_row
from timeball.stores.sql.runs import ordering_keys
from timeball.stores.sql.schema.runs import NewRunRow
from timeball.stores.sql.statements import query

KEEP_PROFILES = query("keep_profiles")

HeldRun = tuple[NewRun, int, bool]
"""A run to be inserted; the holds that its job puts on it (`Hold.OVERLAP`, or 0); and True if the run is serial: it has
to end under the lock on its job."""


async def insert_runs(tx: Tx, new: Sequence[HeldRun], *, not_before: Micros = 0) -> list[NewRunRow]:
    """Insert runs and return their rows.

    A run with an ordering key is queued under that key. A run is BLOCKED if another run holds its ordering key, or if
    its job puts a hold on it, else READY. No run becomes eligible before `not_before`. The caller has locked the jobs
    of these runs, or inserts these jobs in the same transaction.
    """
    if not new:
        return []
    runs = [run for run, _, _ in new]
    waiting = await ordering_keys.enqueue(tx, runs)
    free: Container[str] = ()
    if [run for run, holds, _ in new if holds]:
        free = await ordering_keys.swap_with_waiting(tx, [(run, holds) for run, holds, _ in new], waiting)
    await _keep_profiles(tx, runs)
    rows = [
        new_run_row(
            run,
            (0 if run.id in free else holds) | (Hold.TURN if run.id in waiting else 0),
            serial=serial,
            eligible_at=run.eligible_at if run.eligible_at > not_before else not_before,
        )
        for run, holds, serial in new
    ]
    await insert_run_rows(tx, rows)
    return rows


async def _keep_profiles(tx: Tx, runs: Iterable[NewRun]) -> None:
    """Record the placement profiles of runs that not every worker can execute, so that a claim looks for runs of each
    profile."""
    if profiles := {run.profile for run in runs if run.profile is not None and run.profile != WORKFLOW_PROFILE}:
        await tx.execute(KEEP_PROFILES, b=sorted(profiles))
