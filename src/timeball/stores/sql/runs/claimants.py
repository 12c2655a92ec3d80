"""The workers that a claim is for."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.ports.store.runs import SlotRequest
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.runs.workers import RESTRICTED
from timeball.stores.sql.statements import query

LEASED_SESSIONS = query("leased_sessions")


class Claimants(Struct, frozen=True):
    """Who waits and has a lease, and whether some runs need a closer look."""

    rows: dict[str, Row]
    """Of `leased_sessions`."""
    wants: list[SlotRequest]
    ill_host: bool = False
    """A host is ill."""
    fitted: bool = False
    """Runs wait that not every worker can take."""
    level: int | None = None
    """The priority of all others that wait, if it is the same."""

    @property
    def for_anybody(self) -> list[SlotRequest]:
        """Those who are there for every run, and kept free for none."""
        return [want for want in self.wants if not self.rows[want.session][2] and self.rows[want.session][3] is None]

    @property
    def for_some_kinds(self) -> list[SlotRequest]:
        """Those who are there for every run of certain kinds, and kept free for none."""
        found = [(want, self.rows[want.session]) for want in self.wants]
        return [want for want, row in found if row[2] == RESTRICTED and row[3] is None]


async def claimants(tx: Tx, wants: Sequence[SlotRequest], ahead: Micros) -> Claimants:
    rows = {row[0]: row for row in await tx.fetch(LEASED_SESSIONS, b=[want.session for want in wants], ahead=ahead)}
    if not rows:
        return Claimants({}, [])
    *_, ill_host, fitted, lowest, highest = next(iter(rows.values()))
    level = lowest if lowest == highest else None
    return Claimants(rows, [want for want in wants if want.session in rows], bool(ill_host), bool(fitted), level)
