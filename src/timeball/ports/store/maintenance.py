"""Housekeeping: what one server does for all of them, under a lease.

Leadership is economy, not safety. A lease has an epoch that grows with every change of its holder; each call that
changes something names the epoch it was made in, and the store checks that inside the transaction. Who was deposed
changes nothing, whatever he still believes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from timeball.domain.instant import Micros


class Lead(Struct, frozen=True):
    """A lease as it was given."""

    name: str
    holder: str
    epoch: int


class Deposed(Exception):
    """Somebody else has the lease. Nothing was changed."""


class Occupied(Exception):
    """Others are busy where something was to be changed, and were not made to wait. Nothing was changed; try later."""


class MaintenanceStore(Protocol):
    """Every call with a `lead` raises `Deposed`, and changes nothing, once somebody else has the lease."""

    async def lead(self, name: str, holder: str, for_: Micros) -> Lead | None:
        """Take the lease if it is free or has run out, or renew it, from now on. None: somebody else has it."""
        ...

    async def prepare_days(self, lead: Lead, days: Sequence[Micros]) -> None:
        """Make room for the history of these days, each given by its first instant, where a store keeps them apart.
        May raise `Occupied`: what finds no room of its own is kept all the same."""
        ...

    async def days_to_prune(self, before: Micros, most: int) -> list[Micros]:
        """The days, each by its first instant, that were over before an instant and of which something ended before
        it and may go, or that have room of their own; the oldest first. A run belongs to the day it was made on."""
        ...

    async def prune_day(self, lead: Lead, day: Micros, before: Micros, most: int) -> bool:
        """Let go about so much of what ended before an instant, of a day that is over; whether more is left. The
        verdicts go into the daily sums of their jobs in the same transaction. One-shot jobs go with their last run.
        Stays: what gave up and still has the turn of its ordering key, since somebody has to deal with that.
        May raise `Occupied`."""
        ...

    async def forget_keys(self, lead: Lead, before: Micros, most: int) -> int:
        """Drop idempotency keys that were used first before an instant and whose jobs are gone; how many."""
        ...

    async def forget_versions(self, lead: Lead, before: Micros, most: int) -> int:
        """Drop specs that jobs had until before an instant and that no run refers to any more; how many."""
        ...


class Archiver(Protocol):
    """Keeps days of history elsewhere before they are pruned."""

    async def keep(self, day: Micros) -> bool:
        """Whether everything of a day that has ended by now is kept; the day is given by its first instant. Does a
        bounded share of the work, some seconds at most, and is asked again soon as long as the answer is no. A day may
        come once more after it was kept and pruned: a run that waited for weeks ended, and belongs to it."""
        ...
