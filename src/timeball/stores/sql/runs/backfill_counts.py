"""Counts of the failed and cancelled runs of backfills. Successful runs are not counted: their number is the total
minus all other runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from timeball.domain.run.ledger import Origin
from timeball.domain.run.status import GAVE_UP, Status
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.schema.runs import NewHistoryRow
from timeball.stores.sql.statements import query

COUNT_ENDED = query("count_ended")


async def count_ended(tx: Tx, ended_runs: Iterable[NewHistoryRow]) -> None:
    """Count the runs of backfills among the rows that are inserted into the history. Their jobs are locked."""
    unlucky = [run for run in ended_runs if run.origin == Origin.BACKFILL and run.status != Status.SUCCEEDED]
    if not unlucky:
        return
    failed = Counter(run.retry_of for run in unlucky if run.status in GAVE_UP)
    others = Counter(run.retry_of for run in unlucky if run.status not in GAVE_UP)
    backfills = sorted({run.retry_of for run in unlucky if run.retry_of is not None})
    await tx.execute(COUNT_ENDED, i=[(backfill, failed[backfill], others[backfill]) for backfill in backfills])
