"""The workers for which a claim is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.ports.store.runs import SlotRequest
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.runs.workers import RESTRICTED
from timeball.stores.sql.statements import query

LEASED_SESSIONS = query("leased_sessions")


class LeasedSession(NamedTuple):
    """A row of the statement `leased_sessions`. The columns after `reserved_for` describe the store as a whole and are
    the same in all rows."""

    session: str
    name: str
    dedicated: int
    """0 if the worker accepts every run. Otherwise it accepts only runs with one of its labels, or only some task
    kinds."""
    reserved_for: str | None
    failing_host: int
    constrained: int
    lowest: int | None
    highest: int | None


class Claimants(Struct, frozen=True):
    """The workers with a valid lease that request runs, and which checks the claim needs."""

    sessions: dict[str, LeasedSession]
    wants: list[SlotRequest]
    failing_host: bool = False
    """True if a host has recent failures, so that circuit breakers must be checked."""
    constrained: bool = False
    """True if runs with a placement profile are waiting. Not every worker can execute such runs."""
    level: int | None = None
    """The priority of all waiting runs without a placement profile, if all of them have the same one; else None."""

    @property
    def for_all_kinds(self) -> list[SlotRequest]:
        """The requests of workers that accept every run and are not reserved."""
        found = [(want, self.sessions[want.session]) for want in self.wants]
        return [want for want, each in found if not each.dedicated and each.reserved_for is None]

    @property
    def for_some_kinds(self) -> list[SlotRequest]:
        """The requests of workers that accept every run of certain task kinds and are not reserved."""
        found = [(want, self.sessions[want.session]) for want in self.wants]
        return [want for want, each in found if each.dedicated == RESTRICTED and each.reserved_for is None]


async def claimants(tx: Tx, wants: Sequence[SlotRequest], ahead: Micros) -> Claimants:
    rows = await tx.fetch(LEASED_SESSIONS, b=[want.session for want in wants], ahead=ahead)
    if not rows:
        return Claimants({}, [])
    sessions = {each.session: each for each in map(LeasedSession._make, rows)}
    any_of_them = next(iter(sessions.values()))
    return Claimants(
        sessions,
        [want for want in wants if want.session in sessions],
        bool(any_of_them.failing_host),
        bool(any_of_them.constrained),
        any_of_them.lowest if any_of_them.lowest == any_of_them.highest else None,
    )
