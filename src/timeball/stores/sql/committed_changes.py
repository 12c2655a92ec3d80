"""The changes that the commits of one server made: counted for the statistics, and passed on to the listener if there
is one.

A transaction records its changes in `tx.changes` (see `changes`), which needs no statement. After the commit the driver
gives them to its `CommittedChanges`. The statistics may be incomplete, unlike the ledger: counts that a server has not
written yet are lost if it dies.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from timeball.ports.store.changes import ChangeBatch, ChangeListener, UnwrittenEnds


class _Pending(Struct, frozen=True):
    """The runs and fires that ended between two writes of the statistics."""

    seq: int
    ends: UnwrittenEnds


class CommittedChanges:
    """Counts the changes of committed transactions for the statistics, and passes them on to the listener, if there is
    one. The driver calls it in the thread of the event loop."""

    def __init__(self) -> None:
        self.listener: ChangeListener | None = None
        self._ends = UnwrittenEnds()
        self._pending: dict[str, _Pending] = {}

    @property
    def is_watched(self) -> bool:
        return self.listener is not None

    def add(self, changes: Sequence[ChangeBatch]) -> None:
        """Count the changes of a transaction after its commit, and pass them on to the listener."""
        for batch in changes:
            if batch.count_ends is not None:
                batch.count_ends(self._ends)
        if self.listener is not None:
            self.listener(changes)

    def ends(self, writer: str, seq: int) -> UnwrittenEnds:
        """Return the ended runs and fires that `writer`, a server, adds to the statistics as its batch `seq`: those
        since its last batch. A repeated call with the same number returns the same object, so that a write can be
        repeated."""
        pending = self._pending.get(writer)
        if pending is None or pending.seq != seq:
            pending = self._pending[writer] = _Pending(seq, self._ends)
            self._ends = UnwrittenEnds()
        return pending.ends
