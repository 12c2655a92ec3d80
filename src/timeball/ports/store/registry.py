"""The store of API keys, registered tasks and calendars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from timeball.domain.bootstrap_key import BootstrapSource, Replacement
from timeball.domain.instant import Micros
from timeball.domain.schedule.calendar import NamedCalendar
from timeball.ports.store.paging import Page

Role = Literal["admin", "worker"]


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


class KeyStore(Protocol):
    async def add_key(self, key: Key) -> None:
        """Insert a key. If a key with the same digest exists, nothing changes."""
        ...

    async def key_by_digest(self, digest: str) -> Key | None:
        """Return the key with this digest; None: there is none, or it was revoked."""
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
    async def put_task(self, task: RegisteredTask) -> RegisteredTask:
        """Create or replace a task. Return it with its version, which grows with each call."""
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

    async def put_calendar(self, new: NamedCalendar) -> CalendarPut:
        """Create or replace a calendar. The version grows, unless nothing changes. In the same transaction, runs for
        future fires of jobs that refer to the calendar are deleted and their fires are planned again. Jobs with a
        deferred fire, or whose planning failed, are planned again, too. A run that a worker holds already stays.
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
