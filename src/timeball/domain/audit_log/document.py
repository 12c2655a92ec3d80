"""The JSON form of entries, in answers and in exports. An entry that is read from it has the same hash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from timeball.domain import instant
from timeball.domain.audit_log.entry import Actor, AuditEntry, ChainHead
from timeball.domain.audit_log.values import canonical
from timeball.domain.errors import Invalid
from timeball.domain.instant import Micros

EXPORT_FORMAT: Final = "timeball-audit-log/1"
UNREADABLE: Final = "unreadable"
"""Stands for a time, and names values, that Timeball did not write."""
NEVER: Final[Micros] = -1
"""The time of an entry whose time cannot be read. No entry has it, so that its hash is wrong."""


class AuditActorView(Struct, frozen=True, rename="camel", kw_only=True):
    kind: str
    """The kind of the credential: `key`, `session` (a browser), `jwt`, or `system` for Timeball itself."""
    id: str
    """The id of the API key, or of the user of a token."""
    name: str
    user_id: str | None


class AuditEntryView(Struct, frozen=True, rename="camel", kw_only=True):
    seq: int
    """The number of the entry in its chain, from 1."""
    at: str
    actor: AuditActorView
    address: str
    """The network address of the client, as the server saw it. Behind a proxy it is that of the proxy."""
    action: str
    resource: str
    """The kind of what was changed."""
    resource_id: str
    before: dict[str, Any] | None
    """The fields that changed, with their values before; null if there are none. Secrets are masked."""
    after: dict[str, Any] | None
    previous: str
    """The hash of the entry before; empty for the first one."""
    hash: str


class AuditHeadView(Struct, frozen=True, rename="camel"):
    seq: int
    hash: str


class AuditExportHead(Struct, frozen=True, rename="camel", kw_only=True):
    """The first line of an export. Each other line is an entry."""

    format: str
    chain: str
    """The tenant, or `*` for the chain of the system."""
    head: AuditHeadView | None
    """The number and the hash that the last entry must have; null if the store has no record of them."""
    exported_at: str


_read_head: Final = msgspec.json.Decoder(AuditExportHead).decode
_read_entry: Final = msgspec.json.Decoder(AuditEntryView).decode


def view_of(entry: AuditEntry) -> AuditEntryView:
    actor = entry.actor
    return AuditEntryView(
        seq=entry.seq,
        at=instant.render(entry.at) if 0 <= entry.at <= instant.MAX else UNREADABLE,
        actor=AuditActorView(kind=actor.kind, id=actor.id, name=actor.name, user_id=actor.user_id or None),
        address=entry.address,
        action=entry.action,
        resource=entry.resource,
        resource_id=entry.resource_id,
        before=_values(entry.before),
        after=_values(entry.after),
        previous=entry.previous,
        hash=entry.hash,
    )


def entry_of_view(view: AuditEntryView, chain: str) -> AuditEntry:
    actor = view.actor
    return AuditEntry(
        chain=chain,
        seq=view.seq,
        at=_time(view.at),
        actor=Actor(kind=actor.kind, id=actor.id, name=actor.name, user_id=actor.user_id or ""),
        address=view.address,
        action=view.action,
        resource=view.resource,
        resource_id=view.resource_id,
        before=None if view.before is None else canonical(view.before),
        after=None if view.after is None else canonical(view.after),
        previous=view.previous,
        hash=view.hash,
    )


class AuditExport:
    """An export that is read line by line."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = iter(lines)
        try:
            first = _read_head(next(self._lines, b""))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Invalid(f"this is not an export of the audit log: {error}") from None
        if first.format != EXPORT_FORMAT:
            raise Invalid(f"the export has the format {first.format[:50]!r}; this version reads {EXPORT_FORMAT!r}")
        self.chain = first.chain
        self.head = None if first.head is None else ChainHead(first.chain, first.head.seq, first.head.hash)

    def entries(self) -> Iterator[AuditEntry]:
        """Yield the entries of the export. Raise `Invalid` for a line that is not an entry."""
        for number, line in enumerate(self._lines, 2):
            if line.strip():
                try:
                    yield entry_of_view(_read_entry(line), self.chain)
                except (Invalid, msgspec.MsgspecError, UnicodeDecodeError) as error:
                    raise Invalid(f"line {number} of the export is not an entry: {error}") from None


def _values(text: str | None) -> Any:
    """Return the decoded values of a stored entry. A text that is not the canonical JSON of an object was not written
    by Timeball. It becomes the field `UNREADABLE`, so that the entry in the export does not have the hash that it
    names."""
    if text is None:
        return None
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        found = None
    return found if isinstance(found, dict) and canonical(found) == text else {UNREADABLE: text}


def _time(text: str) -> Micros:
    try:
        return instant.parse(text, "/at")
    except Invalid:
        return NEVER
