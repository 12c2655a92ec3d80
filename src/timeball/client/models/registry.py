"""Answers about registered tasks, calendars and API keys."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import field

from timeball.client.models.model import Model


class Task(Model, frozen=True):
    """A task registered under a name."""

    task_id: str
    task: dict[str, Any] = {}
    version: int = 1
    updated_at: datetime | None = None


class Tasks(Model, frozen=True):
    items: list[Task]
    next_cursor: str | None = None


class Calendar(Model, frozen=True):
    """A named set of closed times. Jobs that refer to it do not fire while it is closed."""

    name: str
    timezone: str = "UTC"
    description: str = ""
    entries: list[dict[str, Any]] = []
    version: int = 1
    updated_at: datetime | None = None


class Calendars(Model, frozen=True):
    items: list[Calendar]
    next_cursor: str | None = None


class ClosedTime(Model, frozen=True):
    """A range of time in which a calendar is closed."""

    since: datetime = field(name="from")
    until: datetime = field(name="to")
    entry: int = 0
    """The position of the entry that closes it, from 0 on."""
    reason: str = ""


class CalendarPreview(Model, frozen=True):
    """The closed times of a calendar in a range of time."""

    since: datetime = field(name="from")
    until: datetime = field(name="to")
    """The end of the list. It is before the requested end if there are too many closed times for one answer."""
    closed: list[ClosedTime] = []


class Key(Model, frozen=True):
    """An API key. Only the answer that created it has the secret, in `key`."""

    key_id: str
    role: str = ""
    name: str = ""
    key: str | None = None
    created_at: datetime | None = None
    revoked_at: datetime | None = None


class ServerFacts(Model, frozen=True):
    version: str = ""
    store: str = ""
    """`sqlite` or `postgresql`."""
    now: datetime | None = None
    public_url: str | None = None


class Credential(Model, frozen=True):
    """The API key of the client, as the server sees it: its tenant, role and permissions."""

    key_id: str
    name: str = ""
    role: str = ""
    tenant: str = ""
    permissions: list[str] = []
    via: str = "key"
    server: ServerFacts = ServerFacts()


class Keys(Model, frozen=True):
    items: list[Key]
