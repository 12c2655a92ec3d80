"""Ledger rows of fires that never ran: consecutive fires with the same verdict and reason share one row, a span."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.stores.sql.changes import record_ends
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.schema.runs import NEW_HISTORY, NewHistoryRow
from timeball.stores.sql.schema.table import as_tuple
from timeball.stores.sql.statements import query

SPANS = query("spans")
GROW_SPANS = query("grow_spans")


class Tail(Struct):
    """The newest ledger row of one job, which the next skipped or missed fire may extend, and the fires that this
    transaction has added.
    """

    last: str | None
    """The id of the newest ledger row; None if the next fire needs a row of its own, for example because the newest
    fire became a run."""
    verdict: str = ""
    reason: str = ""
    until: Micros = 0
    """The last fire of the newest ledger row."""
    grown: tuple[str, Micros, int] | None = None
    """The stored row to extend: its id, its new last fire, and the number of added fires."""
    new: list[NewHistoryRow] = []
    added: list[NewHistoryRow] = []
    """All ledger rows that this transaction added, for the statistics."""

    def add(self, row: NewHistoryRow) -> None:
        """Add fires that are later than all fires added before. A deferred fire may be earlier; it gets a row of its
        own."""
        self.added.append(row)
        if row.fire_time <= self.until:
            self.new.insert(0, row)
            return
        self.until = row.fire_until
        if self.last is None or (row.verdict, row.reason) != (self.verdict, self.reason):
            self.last, self.verdict, self.reason = row.id, row.verdict, row.reason
            self.new.append(row)
        elif self.new and self.new[-1].id == self.last:
            longer = self.new[-1]
            self.new[-1] = msgspec.structs.replace(longer, fire_until=row.fire_until, fires=longer.fires + row.fires)
        else:
            _, _, before = self.grown or (self.last, row.fire_until, 0)
            self.grown = (self.last, row.fire_until, before + row.fires)

    def close(self) -> None:
        """Make the next added fire start a new ledger row, because a run lies between it and the current row."""
        self.last = None

    def close_before(self, instants: Iterable[Micros]) -> None:
        """Make the next added fire start a new ledger row if a run has a fire time after the last fire of the current
        row.
        """
        if any(instant > self.until for instant in instants):
            self.close()


async def tails(tx: Tx, last_spans: Iterable[tuple[str, str | None]]) -> dict[str, Tail]:
    """Return the `Tail` of each job, from the id of its newest ledger row."""
    by_job = {job_id: Tail(last) for job_id, last in last_spans}
    if known := [tail.last for tail in by_job.values() if tail.last is not None]:
        rows = await tx.fetch(SPANS, b=known)
        spans = {span_id: (verdict, reason, until) for span_id, verdict, reason, until in rows}
        for tail in by_job.values():
            if tail.last is not None:
                tail.verdict, tail.reason, tail.until = spans.get(tail.last, ("", "", 0))
    return by_job


async def write(tx: Tx, written: Iterable[Tail]) -> None:
    """Insert and extend the ledger rows of these jobs, and add their new fires to the changes of the transaction."""
    everything = list(written)
    if grown := [tail.grown for tail in everything if tail.grown is not None]:
        await tx.execute(GROW_SPANS, b=grown)
    if new := [row for tail in everything for row in tail.new]:
        await tx.insert(NEW_HISTORY, [as_tuple(row) for row in new])
    record_ends(tx, new, [row for tail in everything for row in tail.added])
