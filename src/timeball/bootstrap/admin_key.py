"""The admin key of a server: where it comes from, and which key it replaces."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

import structlog

from timeball import system
from timeball.config import ServerConfig
from timeball.domain import ids
from timeball.domain.audit_log.change import AuditedRequest
from timeball.domain.audit_log.entry import Actor
from timeball.domain.bootstrap_key import ADMIN_NAME, ADMIN_ROLE, BootstrapSource
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.ports.store.registry import Key
from timeball.ports.store.store import Store

_log = structlog.get_logger()


def find(config: ServerConfig) -> tuple[str, bool]:
    """Return the admin key, and True if it was generated now. There is no default key."""
    if config.admin_key is not None:
        return config.admin_key, False
    path = config.admin_key_file
    try:
        if key := path.read_text().strip():
            return key, False
    except FileNotFoundError:
        pass
    key = system.secret()
    _write(path, key)
    return key, True


async def allow(store: Store, key: str, config: ServerConfig) -> None:
    """Make the admin key valid, and revoke the one that it replaces. The rule is in `domain.bootstrap_key`."""
    source: BootstrapSource = "generated" if config.admin_key is None else "configured"
    memory = config.admin_key_file.with_suffix(".last")
    digest = hashlib.sha256(key.encode()).hexdigest()
    last = _last(memory)
    done = await _allow(store, digest, source, last)
    if done:
        if last != digest:
            # On a read-only disk the key of this start is not recorded. `domain.bootstrap_key` has a rule for servers
            # without a record.
            with contextlib.suppress(OSError):
                _write(memory, digest)
    else:
        _log.warning(
            "the admin key of this server is not valid, because it was revoked or replaced: configure the current one",
            source=source,
        )


async def _allow(store: Store, digest: str, source: BootstrapSource, last: str | None) -> bool:
    now = store.now()
    key = Key(
        id=ids.make("k", now, system.rng()),
        tenant=DEFAULT_TENANT,
        name=ADMIN_NAME,
        role=ADMIN_ROLE,
        digest=digest,
        created_at=now,
    )
    audited = store.audited(
        AuditedRequest(
            tenant=DEFAULT_TENANT,
            actor=Actor(kind="system", id="", name="server start"),
            address="",
            action="api-key.bootstrap",
            resource="api-key",
        )
    )
    done = await audited.allow_bootstrap_key(key, source, last)
    if done.revoke:
        _log.info("the admin key was changed: the previous one is revoked", revoked=len(done.revoke))
    elif done.restore and not done.mark:
        _log.warning(
            "this admin key was replaced by a newer one, which other servers may use: both are valid until a server"
            " starts with the newer one again, or with another"
        )
    return done.accepted


def _last(memory: Path) -> str | None:
    try:
        return memory.read_text().strip() or None
    except (OSError, ValueError):
        return None


def _write(path: Path, text: str) -> None:
    """Write a file under another name and rename it, so that a kill never leaves an empty file."""
    draft = path.with_name(f"{path.name}.new")
    with open(draft, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
