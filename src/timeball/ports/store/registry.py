"""The store of API keys, registered tasks and calendars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from timeball.domain.bootstrap_key import BootstrapSource, Replacement
from timeball.domain.identity.permission import Permission
from timeball.domain.identity.role import Role, lower_role
from timeball.domain.instant import Micros
from timeball.domain.schedule.calendar import NamedCalendar
from timeball.ports.store.paging import Page


class Key(Struct, frozen=True, kw_only=True):
    """An API key."""

    id: str
    tenant: str
    name: str
    role: Role
    digest: str
    """SHA-256 of the secret in hexadecimal digits. The secret itself is not stored."""
    created_at: Micros
    revoked_at: Micros | None = None
    scopes: tuple[Permission, ...] | None = None
    """The only permissions of the role that the key has; None: all of them."""
    labels: tuple[str, ...] | None = None
    """The only labels that workers with this key may offer; None: any labels."""
    tenants: tuple[str, ...] | None = None
    """The tenants that workers with this key serve; None: by the role of the key, see `served_tenants`."""
    user_id: str | None = None
    """The user of the key; None: it belongs to no user."""
    user_role: Role | None = None
    """The role of that user. It limits the role of the key."""
    expires_at: Micros | None = None
    last_used_at: Micros | None = None
    """At most a minute before the last use."""
    replaces: str | None = None
    """The id of the key that this one was made from by a rotation; None: it was not."""

    @property
    def effective_role(self) -> Role:
        return self.role if self.user_role is None else lower_role(self.role, self.user_role)

    def is_expired(self, now: Micros) -> bool:
        return self.expires_at is not None and self.expires_at <= now


class KeyStore(Protocol):
    async def add_key(self, key: Key) -> None:
        """Insert a key. If a key with the same digest exists, nothing changes."""
        ...

    async def key_by_digest(self, digest: str) -> Key | None:
        """Return the key with this digest, also if it has expired; None: there is none, it was revoked, its tenant does
        not exist or is being deleted, or its user is disabled."""
        ...

    async def key(self, tenant: str, key_id: str) -> Key | None:
        """Return a key of a tenant, also if it was revoked; None: there is no such key."""
        ...

    async def list_keys(self, tenant: str, cursor: str | None, limit: int) -> Page[Key]:
        """Return a page of the keys of a tenant, revoked ones included, newest first."""
        ...

    async def rotate_key(self, key: Key, old_expires_at: Micros) -> Key:
        """Insert a key that replaces the key `key.replaces`, and let that one expire at `old_expires_at`, unless it
        expires earlier. Return the new key. A repeated call changes nothing. Raises `NotFound` if there is no such key
        in the tenant, and `Conflict` if it was revoked, has expired, was rotated before, or comes from the settings of
        a server."""
        ...

    async def keys(self) -> list[Key]:
        """Return all keys, revoked ones included, newest first."""
        ...

    async def revoke_key(self, key_id: str) -> bool:
        """Revoke a key permanently; no setting of a server makes it valid again. Sessions of workers that the key
        opened get no more runs, and their leases are not renewed; its web sessions and one-time links end. Return
        False if the key was revoked before or does not exist.
        """
        ...

    async def allow_bootstrap_key(self, key: Key, source: BootstrapSource, last: str | None) -> Replacement:
        """Apply the decision of `domain.bootstrap_key.replacement` when a server starts with an admin key, and return
        it. `last` is the digest of the key with which the server started last time; None: it is not known. Raises
        `Conflict`, and changes nothing, if the store has the key with another role.
        """
        ...


class RegisteredTask(Struct, frozen=True, kw_only=True):
    """A task that jobs refer to by its id."""

    id: str
    tenant: str
    spec: dict[str, Any]
    version: int
    updated_at: Micros


class TaskStore(Protocol):
    async def put_task(self, task: RegisteredTask, if_match: int | None = None) -> RegisteredTask:
        """Create or replace a task. Return it with its version, which grows with each call. Raises
        `PreconditionFailed` if the task has another version than `if_match`, unless it has this spec already.
        """
        ...

    async def task(self, tenant: str, task_id: str) -> RegisteredTask | None:
        """Return a task; None: there is no such task."""
        ...

    async def list_tasks(self, tenant: str, cursor: str | None, limit: int) -> Page[RegisteredTask]:
        """Return a page of the tasks of a tenant, ordered by id."""
        ...

    async def delete_task(self, tenant: str, task_id: str) -> bool:
        """Delete a task. Return False if there is no such task. Raises `Conflict` if a job that is not cancelled refers
        to it.
        """
        ...


class CalendarPut(Struct, frozen=True):
    """A calendar that was stored."""

    calendar: NamedCalendar
    held_until: Micros | None = None
    """The latest future fire whose run was planned with the old calendar and is held by a worker already; None: there
    is none. The caller acknowledges the change only after this instant.
    """


class CalendarStore(Protocol):
    """A transaction that plans, submits or amends jobs with calendars locks these calendars against changes."""

    async def put_calendar(self, new: NamedCalendar, if_match: int | None = None) -> CalendarPut:
        """Create or replace a calendar. The version grows, unless nothing changes. In the same transaction, runs for
        future fires of jobs that refer to the calendar are deleted and their fires are planned again. Jobs with a
        deferred fire, or whose planning failed, are planned again, too. A run that a worker holds already stays.
        Raises `PreconditionFailed` if the calendar has another version than `if_match`, unless nothing changes.
        """
        ...

    async def calendars(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], NamedCalendar]:
        """Return calendars by tenant and name, without those that do not exist or cannot be decoded."""
        ...

    async def list_calendars(self, tenant: str, cursor: str | None, limit: int) -> Page[NamedCalendar]:
        """Return a page of the calendars of a tenant, ordered by name."""
        ...

    async def delete_calendar(self, tenant: str, name: str) -> bool:
        """Delete a calendar. Return False if there is no such calendar. Raises `Conflict` if a job that may still fire
        refers to it.
        """
        ...
