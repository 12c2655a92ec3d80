"""Inserts finished runs directly into the history."""

from collections.abc import Iterable
from typing import Any

from timeball.domain import ids
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job
from timeball.ports.store.store import Store
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.schema.runs import HISTORY, HistoryRow
from timeball.stores.sql.schema.table import as_tuple


class Numbered:
    """Random bits with a fixed value, so that an id contains this number."""

    def __init__(self, number: int) -> None:
        self._number = number

    def getrandbits(self, k: int, /) -> int:
        return self._number


def finished(job: Job, at: Micros, number: int, **fields: Any) -> HistoryRow:
    """Return a successful run that was created, fired and ended at one instant. `fields` replace these values."""
    values = {
        "id": ids.run(at, Numbered(number)),
        "job_id": job.id,
        "tenant": job.tenant,
        "version": 1,
        "fire_time": at,
        "fire_until": at,
        "fires": 1,
        "origin": "schedule",
        "status": "succeeded",
        "verdict": "on_time",
        "reason": "",
        "attempt": 1,
        "token": number,
        "worker": "w",
        "eligible_at": at,
        "created_at": at,
        "claimed_at": at,
        "started_at": at,
        "attempt_started_at": at,
        "finished_at": at,
        "cancel_requested_at": None,
        "progress": None,
        "progress_note": "",
        "failure": None,
        "result": None,
        "retry_of": None,
        "retried_as": None,
    }
    return HistoryRow(**{**values, **fields})


async def add(store: Store, rows: Iterable[HistoryRow]) -> None:
    async def work(tx: Tx) -> None:
        await tx.insert(HISTORY, [as_tuple(row) for row in rows])

    await store._db.write(work)  # type: ignore[attr-defined]
