"""What backfills count of their runs. That one succeeded needs no count: it is what is left."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from timeball.domain.run.ledger import Origin
from timeball.domain.run.lifecycle import Status
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.schema import NEW_HISTORY
from timeball.stores.sql.statements import query

COUNT_ENDED = query("count_ended")

_ORIGIN: Final = NEW_HISTORY.columns.index("origin")
_STATUS: Final = NEW_HISTORY.columns.index("status")
_BACKFILL: Final = NEW_HISTORY.columns.index("retry_of")
_GAVE_UP: Final = frozenset({Status.FAILED.value, Status.DEAD.value})


async def count_ended(tx: Tx, ended_runs: Iterable[Row]) -> None:
    """Count runs of backfills among the rows that enter the history. Their jobs are locked."""
    unlucky = [row for row in ended_runs if row[_ORIGIN] == Origin.BACKFILL and row[_STATUS] != Status.SUCCEEDED]
    if not unlucky:
        return
    sums: dict[str, list[int]] = {}
    for row in unlucky:
        counted = sums.setdefault(row[_BACKFILL], [0, 0])
        counted[row[_STATUS] not in _GAVE_UP] += 1
    await tx.execute(COUNT_ENDED, i=[(backfill, *counted) for backfill, counted in sorted(sums.items())])
