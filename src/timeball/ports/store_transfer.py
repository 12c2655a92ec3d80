"""Moving a whole store to another database: what is told while it goes on, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from timeball.domain.instant import Micros


@dataclass(frozen=True, slots=True)
class Progress:
    doing: str
    """The table that is copied, or what else takes a while."""
    rows: int = 0
    of: int | None = None
    """None: nobody knows how much it is."""


Report = Callable[[Progress], None]


class ObjectCopier(Protocol):
    """Brings along what rows refer to and that is no row: objects of the store with this number."""

    async def check(self, number: int) -> None:
        """Raises `Conflict` if they could not be read any more."""
        ...

    async def copy(self, number: int, report: Report) -> None:
        """When this returns, all of them are for good where the new store's servers look for them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferResult:
    """What was moved, or in a rehearsal what would be."""

    source: str
    target: str
    """Its address, without a password."""
    rows: Mapping[str, int]
    """How many of each table, in the order in which they go."""
    token: int
    """The last fencing token; those of the new store are greater."""
    ahead: Micros
    """How far the new store's clock is ahead of this machine's; negative: behind."""
    held_by: str | None = None
    """In a rehearsal: the process that uses the old store now and has to be stopped first."""
    was_complete: bool = False
    """An earlier move had brought everything over, and only nobody had heard so."""
