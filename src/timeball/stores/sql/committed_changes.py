"""What the commits of one server changed: counted for the statistics, and passed on to the listener if there is one.

A transaction records its changes in `tx.changes` (see `changes`), which costs it no statement. After the commit the
driver gives them to its `CommittedChanges`. Statistics are not the ledger: what a server counted and has not written is
lost with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from timeball.ports.store.changes import ChangeBatch, ChangeListener, UnwrittenEnds


class _Pending(Struct, frozen=True):
    """What ended between two writes of the statistics."""

    seq: int
    ends: UnwrittenEnds


class CommittedChanges:
    """Receives what transactions changed, in the thread of the event loop."""

    def __init__(self) -> None:
        self.listener: ChangeListener | None = None
        self._ends = UnwrittenEnds()
        self._pending: dict[str, _Pending] = {}

    @property
    def is_watched(self) -> bool:
        return self.listener is not None

    def add(self, changes: Sequence[ChangeBatch]) -> None:
        """Count and pass on what a transaction changed, after its commit."""
        for batch in changes:
            if batch.count_ends is not None:
                batch.count_ends(self._ends)
        if self.listener is not None:
            self.listener(changes)

    def ends(self, writer: str, seq: int) -> UnwrittenEnds:
        """Return what this writer has to write under the number `seq`: the same object for the same number."""
        pending = self._pending.get(writer)
        if pending is None or pending.seq != seq:
            pending = self._pending[writer] = _Pending(seq, self._ends)
            self._ends = UnwrittenEnds()
        return pending.ends
