"""Admin keys that come from a server's own settings, and when one replaces another.

The first admin key of a store is *configured* (`TIMEBALL_ADMIN_KEY`, the same for all its servers) or *generated*
(in `admin.key`, one for each data folder). A server remembers in its data folder which key it started with last.

- A server that starts with another key than last time was reconfigured: the key of last time is revoked, and if the new
  one is configured, all other configured ones. The new one is valid, also if it was replaced before.
- A server that starts with the same key as last time changes nothing. So a server that restarts with the old key while
  others have the new one already neither revokes the new one nor brings the old one back.
- A configured key that the store does not know replaces all other configured ones, whatever the server remembers: the
  store may be a backup.
- Without a memory (in a new container), a server with the newest configured key revokes what is left of older ones.
  With an older one it is late, or was set back: that key is valid again beside the newest, so that no user is locked
  out, until a server starts with the newest or with another one.
- A key that the store knows with another role than admin is refused, and nothing is changed: it would lock the admins
  out.
- Keys that users create are never revoked here, and what a user revoked stays revoked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from timeball.domain.errors import Conflict
from timeball.domain.instant import Micros

BootstrapSource = Literal["configured", "generated"]
ADMIN_ROLE = "admin"
ADMIN_NAME = "admin"
"""What bootstrap keys are called. Versions that did not mark them are recognised by it."""


class KnownKey(Struct, frozen=True, kw_only=True):
    """A key of the store that matters here."""

    digest: str
    name: str
    role: str
    source: str | None
    """None: a user created it, or revoked it."""
    current_since: Micros
    revoked: bool


class Replacement(Struct, frozen=True, kw_only=True):
    """What a start does to the keys of the store."""

    accepted: bool
    """Whether the server's key is valid afterwards."""
    add: bool = False
    mark: bool = False
    """It is the newest from now on."""
    restore: bool = False
    revoke: tuple[str, ...] = ()
    """Digests."""


def replacement(digest: str, source: BootstrapSource, last: str | None, known: Sequence[KnownKey]) -> Replacement:
    """`last`: the digest of the key that this server started with last time; None: it does not remember."""
    by_digest = {key.digest: key for key in known}
    found = by_digest.get(digest)
    if found is not None and found.role != ADMIN_ROLE:
        raise Conflict(
            f"the admin key of this server is the key {found.name!r} of the role {found.role}, which cannot be an admin"
            " key; no key was changed. Set TIMEBALL_ADMIN_KEY or TIMEBALL_ADMIN_KEY_FILE to a key of the role admin, or"
            " to a new one"
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
    """The key of the last start, if this one has another."""
    return tuple(
        key.digest for key in known if key.digest == last != digest and key.source is not None and not key.revoked
    )
