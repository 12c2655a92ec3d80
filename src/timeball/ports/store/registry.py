"""The store of what jobs and people refer to: keys, tasks, calendars."""

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
    id: str
    tenant: str
    name: str
    role: Role
    digest: str
    """SHA-256 of the secret, hex: the secret itself is kept nowhere."""
    created_at: Micros
    revoked_at: Micros | None = None


class KeyStore(Protocol):
    async def add_key(self, key: Key) -> None:
        """Adding the same digest again changes nothing."""
        ...

    async def key_by_digest(self, digest: str) -> Key | None:
        """An unrevoked key."""
        ...

    async def keys(self) -> list[Key]: ...

    async def revoke_key(self, key_id: str) -> bool:
        """For good: no setting of a server makes it valid again. False: it was revoked before, or never was. Its
        sessions get no more runs, and their leases are not renewed."""
        ...

    async def allow_bootstrap_key(self, key: Key, source: BootstrapSource, last: str | None) -> Replacement:
        """Do what `domain.bootstrap_key.replacement` says when a server starts with a key; `last` is the digest of the
        one it started with last time."""
        ...


class RegisteredTask(Struct, frozen=True, kw_only=True):
    id: str
    tenant: str
    spec: dict[str, Any]
    version: int
    updated_at: Micros


class TaskStore(Protocol):
    async def put_task(self, task: RegisteredTask) -> RegisteredTask:
        """Create or replace; the version grows."""
        ...

    async def task(self, tenant: str, task_id: str) -> RegisteredTask | None: ...

    async def list_tasks(self, tenant: str, cursor: str | None, limit: int) -> Page[RegisteredTask]: ...

    async def delete_task(self, tenant: str, task_id: str) -> bool:
        """False: no such task. Raises `Conflict` while a job that is not cancelled refers to it."""
        ...


class CalendarPut(Struct, frozen=True):
    calendar: NamedCalendar
    held_until: Micros | None = None
    """The latest instant for which a worker already has a run that was made under the old one: until then nobody should
    be told that the new one counts."""


class CalendarStore(Protocol):
    """Whoever plans, submits or amends jobs with calendars does so while these stay what they are."""

    async def put_calendar(self, new: NamedCalendar) -> CalendarPut:
        """Create or replace; the version grows, unless nothing changes. In the same transaction, runs of jobs that
        refer to it whose instants have not come are given back to their schedules, and jobs that are owed a fire are
        planned anew."""
        ...

    async def calendars(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], NamedCalendar]:
        """Those that there are, by tenant and name."""
        ...

    async def list_calendars(self, tenant: str, cursor: str | None, limit: int) -> Page[NamedCalendar]: ...

    async def delete_calendar(self, tenant: str, name: str) -> bool:
        """False: no such calendar. Raises `Conflict` while a job that may still fire refers to it."""
        ...
