"""Counts the runs and fires that transactions end, for the statistics.

A transaction adds what it ends to its `Ends`; after the commit the driver gives them to its `EndCounter`. That costs a
transaction no statement. Statistics are not the ledger: what a server counted and has not written is lost with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.domain.overview import tally
from timeball.domain.overview.tally import FINE_WIDTH, RunTally
from timeball.stores.sql.schema.runs import NewHistoryRow

MAX_UNRESOLVED: Final = 200_000
"""Maximum number of plain successes that wait to be counted. Successes over this limit are not
counted: the limit is reached only if no loop writes the statistics."""

RunTallies = dict[tuple[str, Micros], RunTally]
"""Tallies by tenant and by the first instant of an interval of length `FINE_WIDTH`."""


class Ends:
    """The runs and fires that a transaction ends."""

    __slots__ = ("rows", "succeeded")

    def __init__(self) -> None:
        self.rows: list[NewHistoryRow] = []
        self.succeeded: list[str] = []
        """The ids of plain successes. Their tenants and lateness are in the store only, and are read later."""

    def clear(self) -> None:
        if self.rows or self.succeeded:
            self.rows, self.succeeded = [], []

    def take(self) -> Ends | None:
        """Return the added runs and fires, and clear this object; None if it is empty."""
        if not self.rows and not self.succeeded:
            return None
        taken = Ends()
        taken.rows, taken.succeeded = self.rows, self.succeeded
        self.rows, self.succeeded = [], []
        return taken


class EndBatch(Struct):
    """The runs and fires that ended between two writes of the statistics."""

    seq: int
    tallies: RunTallies
    succeeded: list[str]


class EndCounter:
    """Counts the runs and fires that were committed through one driver and are not in the statistics yet."""

    def __init__(self) -> None:
        self._tallies: RunTallies = {}
        self._succeeded: list[str] = []
        self._batches: dict[str, EndBatch] = {}

    def add(self, ends: Ends) -> None:
        """Count what a transaction ended, after its commit."""
        count_rows(self._tallies, ends.rows)
        if len(self._succeeded) < MAX_UNRESOLVED:
            self._succeeded += ends.succeeded

    def batch(self, writer: str, seq: int) -> EndBatch:
        """Return the batch that this writer has to write under the number `seq`. The same `seq` returns the same
        batch."""
        pending = self._batches.get(writer)
        if pending is None or pending.seq != seq:
            pending = self._batches[writer] = EndBatch(seq, self._tallies, self._succeeded)
            self._tallies, self._succeeded = {}, []
        return pending


def count_rows(tallies: RunTallies, rows: Sequence[NewHistoryRow]) -> None:
    for row in rows:
        key = (row.tenant, row.finished_at // FINE_WIDTH * FINE_WIDTH)
        found = tallies.get(key)
        if found is None:
            found = tallies[key] = RunTally()
        found.count(tally.ended_as(row.status, row.verdict), row.fires)
        due: Micros | None = getattr(row, "due_at", None)
        late = tally.lateness(row.origin, row.fire_time if due is None else due, row.started_at)
        if late is not None:
            found.count_late(tally.bucket_of(late))
