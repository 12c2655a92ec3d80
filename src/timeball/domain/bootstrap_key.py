"""Admin keys from the settings of a server (bootstrap keys), and the rules by which one replaces another.

The first admin key of a store is *configured* (`TIMEBALL_ADMIN_KEY`, the same for all servers of the store) or
*generated* (in `admin.key`, one for each data folder). A server records in its data folder the key of its last start.

- A server that starts with another key than at its last start was reconfigured. The key of the last start is revoked;
  if the new key is configured, all other configured keys are revoked as well. The new key becomes valid, even if it was
  replaced before.
- A server that starts with the key of its last start changes nothing. If a server restarts with the old key while other
  servers already have the new one, it neither revokes the new key nor restores the old one.
- A configured key that the store does not know replaces all other configured keys, even if the server started with it
  last time: the store may have been restored from a backup.
- A server without a record of its last start (in a new container) that has the newest configured key revokes the older
  configured keys. If it has an older key, its configuration is late or was reverted: that key becomes valid again in
  addition to the newest one, so that no user is locked out. It stays valid until another of these rules revokes it. A
  server that had the newest key at its last start, and restarts with it, does not.
- A key that the store knows with another role than system is refused, and no key is changed, because that would lock
  out the admins.
- Keys that users created are never revoked here, and a key that a user revoked stays revoked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from timeball.domain.errors import Conflict
from timeball.domain.identity.role import Role
from timeball.domain.instant import Micros

BootstrapSource = Literal["configured", "generated"]
ADMIN_ROLE: Final[Role] = "system"
ADMIN_NAME = "admin"
"""The name of bootstrap keys. Earlier versions did not store the source of bootstrap keys; this name identifies the
keys that they stored."""


class KnownKey(Struct, frozen=True, kw_only=True):
    """A stored key that is relevant to the replacement: a bootstrap key, or the key of the server."""

    digest: str
    name: str
    role: Role
    source: str | None
    """Where the bootstrap key comes from: configured or generated. None if a user created the key, or revoked it."""
    current_since: Micros
    revoked: bool


class Replacement(Struct, frozen=True, kw_only=True):
    """The changes of the stored keys when a server starts, and whether its own key is valid then."""

    accepted: bool
    """True if the key of the server is valid after the changes."""
    add: bool = False
    """True if the key of the server is added to the store."""
    mark: bool = False
    """True if the store marks the key of the server as the newest one that servers are started with."""
    restore: bool = False
    """True if the key of the server was revoked and becomes valid again."""
    revoke: tuple[str, ...] = ()
    """The digests of the keys to revoke."""


def replacement(digest: str, source: BootstrapSource, last: str | None, known: Sequence[KnownKey]) -> Replacement:
    """Return the changes of the stored keys `known` when a server starts with the key `digest`. `last` is the digest of
    the key of the last start of this server; None if there is no record of it. Raise `Conflict` if the store knows the
    key with another role than system."""
    by_digest = {key.digest: key for key in known}
    found = by_digest.get(digest)
    if found is not None and found.role != ADMIN_ROLE:
        raise Conflict(
            f"the admin key of this server is the key {found.name!r} with the role {found.role}, which cannot be an"
            " admin key; no key was changed. Set TIMEBALL_ADMIN_KEY or TIMEBALL_ADMIN_KEY_FILE to a key with the role"
            " system, or to a new key"
        )
    if found is not None and found.source is None:
        if found.revoked or found.name != ADMIN_NAME:
            return Replacement(accepted=not found.revoked, revoke=() if found.revoked else _last(last, digest, known))
        return Replacement(accepted=True, mark=True, revoke=_last(last, digest, known))
    changed = last is not None and last != digest
    if last == digest and found is not None:
        return Replacement(accepted=not found.revoked)
    others = tuple(
        key.digest for key in known if source == key.source == "configured" and key.digest != digest and not key.revoked
    )
    if found is None:
        return Replacement(accepted=True, add=True, mark=True, revoke=(*_last(last, digest, known), *others))
    if changed:
        return Replacement(accepted=True, mark=True, restore=True, revoke=(*_last(last, digest, known), *others))
    if found.revoked:
        return Replacement(accepted=source == "configured", restore=source == "configured")
    newest = all(found.current_since >= by_digest[other].current_since for other in others)
    return Replacement(accepted=True, revoke=others if newest else ())


def _last(last: str | None, digest: str, known: Sequence[KnownKey]) -> tuple[str, ...]:
    """Return the digest of the key of the last start, if it must be revoked because this start has another key."""
    return tuple(
        key.digest for key in known if key.digest == last != digest and key.source is not None and not key.revoked
    )
