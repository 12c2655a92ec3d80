"""Maintenance: retention and clean-up, which one server does for all of them, under a lease.

The lease saves work; it is not needed for safety. A lease has an epoch that grows with every change of its holder. Each
call that changes something passes the epoch of its caller, and the store checks it inside the transaction. A server
that lost the lease changes nothing, even if it does not know that yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from timeball.domain.instant import Micros


class Lead(Struct, frozen=True):
    """A lease that a server holds: its name, its holder and its epoch."""

    name: str
    holder: str
    epoch: int


class Deposed(Exception):
    """Raised if another server holds the lease. Nothing was changed."""


class Occupied(Exception):
    """Raised if the lock that a change needs is held by other transactions for longer than the call waits, so that they
    are not delayed. Nothing was changed; try again later.
    """


class MaintenanceStore(Protocol):
    """Every call with a `lead` raises `Deposed`, and changes nothing, if another server holds the lease."""

    async def lead(self, name: str, holder: str, for_: Micros) -> Lead | None:
        """Take a lease that is free or has run out, or renew it if `holder` has it. It then lasts for `for_`
        microseconds from now. None: another server holds it.
        """
        ...

    async def prepare_days(self, lead: Lead, days: Sequence[Micros]) -> None:
        """Create the partitions for the history of days, each given by its first instant, if the store has one
        partition per day. Partitions that exist stay as they are. May raise `Occupied`. Rows of a day without a
        partition are stored in the default partition.
        """
        ...

    async def days_to_prune(self, before: Micros, limit: int) -> list[Micros]:
        """Return up to `limit` days, each by its first instant, oldest first. All of them ended before `before`, and
        have runs that ended before it and may be deleted, or have a partition of their own. A run belongs to the day on
        which it was created.
        """
        ...

    async def prune_day(self, lead: Lead, day: Micros, before: Micros, limit: int) -> bool:
        """Delete about `limit` rows of runs that ended before `before`, of a day that is over by then. Return True if
        more may be left; call again then.

        The verdicts are added to the daily sums of their jobs in the same transaction. A one-shot job that no job
        follows is deleted with its last run. A failed or dead run that still holds its ordering key stays, because a
        user has to retry or discard it. A run of a task stays until its workflow run has ended. May raise `Occupied`.
        """
        ...

    async def forget_keys(self, lead: Lead, before: Micros, limit: int) -> int:
        """Delete up to `limit` idempotency keys that were first used before `before` and whose jobs do not exist any
        more. Return how many were deleted.
        """
        ...

    async def forget_versions(self, lead: Lead, before: Micros, limit: int) -> int:
        """Delete up to `limit` specs that were replaced in their jobs before `before` and that no run refers to any
        more. The newest one of each job stays. Return how many were deleted.
        """
        ...


class Archiver(Protocol):
    """Copies days of history to the archive before they are deleted from the store."""

    async def keep(self, day: Micros) -> bool:
        """Archive a day, given by its first instant. Return True if all its runs that have ended are in the archive.
        One call does a bounded share of the work, a few seconds at most; the caller repeats it while the answer is
        False. A day may be passed again after it was archived and deleted, because a run of that day ended weeks later.
        """
        ...
