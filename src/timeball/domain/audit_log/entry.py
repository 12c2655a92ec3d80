"""The entries of the audit log, and the hash that binds each entry to the one before.

Each tenant has a chain of its own, and the system has one for what belongs to no tenant. The hash of an entry covers
all its fields, its number and the hash of the entry before. The head of a chain has the number and the hash of its last
entry, so that a chain whose end is missing is recognized.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec
from msgspec import Struct

from timeball.domain.instant import Micros

SYSTEM_CHAIN: Final = "*"
"""The chain of the changes that belong to no tenant, such as those of tenants themselves. No tenant has this name."""
NO_HASH: Final = ""
"""Stands for the hash before the first entry of a chain."""
FORMAT: Final = 1
"""The version of the canonical form. It is part of what is hashed."""
_encode = msgspec.json.Encoder().encode


class Actor(Struct, frozen=True, kw_only=True):
    """Who made a request."""

    kind: str
    """The kind of the credential, such as `key`, `jwt` or `session`; `system` for Timeball itself."""
    id: str
    """The id of the credential."""
    name: str
    user_id: str = ""


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One line of the audit log."""

    chain: str
    """The tenant, or `SYSTEM_CHAIN`."""
    seq: int
    """The number of the entry in its chain, from 1."""
    at: Micros
    actor: Actor
    address: str
    """The network address of the client, as the server saw it."""
    action: str
    resource: str
    """What kind of thing was changed, such as `job`."""
    resource_id: str
    before: str | None
    """The fields that changed, with their values before, as canonical JSON; None: the thing did not exist, or the
    action has no such values."""
    after: str | None
    previous: str
    """The hash of the entry before; `NO_HASH` for the first."""
    hash: str


class ChainHead(Struct, frozen=True):
    """The end of a chain: the number and the hash of its last entry."""

    chain: str
    seq: int
    hash: str


def hash_of(entry: AuditEntry) -> str:
    """Return the hash that the entry must have: SHA-256 over its canonical form, in hexadecimal digits."""
    actor = entry.actor
    return hashlib.sha256(
        _encode(
            (
                FORMAT,
                entry.chain,
                entry.seq,
                entry.at,
                (actor.kind, actor.id, actor.name, actor.user_id),
                entry.address,
                entry.action,
                (entry.resource, entry.resource_id),
                entry.before,
                entry.after,
                entry.previous,
            )
        )
    ).hexdigest()


def with_hash(entry: AuditEntry) -> AuditEntry:
    return msgspec.structs.replace(entry, hash=hash_of(entry))


def head_of(entry: AuditEntry) -> ChainHead:
    return ChainHead(entry.chain, entry.seq, entry.hash)
