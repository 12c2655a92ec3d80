"""The store of the audit log."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from timeball.domain.audit_log.entry import AuditEntry, ChainHead
from timeball.domain.instant import Micros
from timeball.ports.store.paging import Page


class AuditFilter(Struct, frozen=True, kw_only=True):
    """The entries to list. All conditions that are given must hold."""

    chain: str
    actor: str | None = None
    """The id or the name of a credential, or the id of a user."""
    action: str | None = None
    """An action; with a `*` at the end all that begin so."""
    resource: str | None = None
    """The id of what was changed."""
    since: Micros | None = None
    until: Micros | None = None


class ChainEnd(Struct, frozen=True):
    """The end of a chain: its head, and the number of the last entry that the store has. They differ only if another
    program than Timeball changed the store."""

    head: ChainHead | None
    """None: there is no head. It exists from the first entry on."""
    last: int
    """0: there is no entry."""


class AuditStore(Protocol):
    """Entries are appended in the transactions that make the changes (`Store.audited`), and are never changed or
    deleted, except that a chain is deleted as a whole with its tenant."""

    async def audit_log(self, where: AuditFilter, cursor: str | None, limit: int) -> Page[AuditEntry]:
        """Return a page of entries, newest first. `cursor` is `next_cursor` of the page before, a number. A page may
        have fewer than `limit` entries although others follow: it compares a bounded number of entries."""
        ...

    async def audit_entries(self, chain: str, after: int, limit: int) -> list[AuditEntry]:
        """Return the first entries of a chain whose numbers are greater than `after`, in order."""
        ...

    async def audit_head(self, chain: str) -> ChainHead | None:
        """Return the head of a chain; None: nothing was appended to it."""
        ...

    async def audit_end(self, chain: str) -> ChainEnd:
        """Return the end of a chain as it is at one instant."""
        ...

    async def audit_chains(self) -> list[str]:
        """Return all chains that have a head or an entry."""
        ...
