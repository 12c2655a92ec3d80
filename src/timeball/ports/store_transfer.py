"""Transfer of a whole store to another database: its progress, and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from timeball.domain.instant import Micros


@dataclass(frozen=True, slots=True)
class TransferProgress:
    doing: str
    """The table that is copied, or another step that takes long."""
    rows: int = 0
    """Number of rows or objects that are copied so far."""
    of: int | None = None
    """Total number of rows or objects to copy; None: it is not known."""


Report = Callable[[TransferProgress], None]


class ObjectCopier(Protocol):
    """Copies the large values of a store: objects in object storage that its rows refer to. The number of the store
    tells its objects apart from those of other stores.
    """

    async def check(self, number: int) -> None:
        """Raise `Conflict` if the servers of the new store could not read the objects."""
        ...

    async def copy(self, number: int, report: Report) -> None:
        """Copy the objects to where the servers of the new store read them, unless they are there already. They are
        durable when this returns. The call may be repeated.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferResult:
    """The result of a transfer. A rehearsal returns what a transfer would move."""

    source: str
    target: str
    """The address of the new store, without a password."""
    rows: Mapping[str, int]
    """The number of rows of each table, in the order of the transfer."""
    token: int
    """The last fencing token of the old store. Those of the new store are greater."""
    ahead: Micros
    """Microseconds that the clock of the new store is ahead of the clock of this machine; negative: behind."""
    held_by: str | None = None
    """In a rehearsal: the process that uses the old store now and must be stopped before the transfer."""
    was_complete: bool = False
    """True if an earlier transfer had moved everything, and only its answer was lost."""
