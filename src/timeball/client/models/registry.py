"""Answers about registered tasks, calendars and API keys."""

from __future__ import annotations

from datetime import datetime
from typing import Any

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


class Key(Model, frozen=True):
    """An API key. Only the answer that created it has the secret, in `key`."""

    key_id: str
    role: str = ""
    name: str = ""
    key: str | None = None
    created_at: datetime | None = None
    revoked_at: datetime | None = None


class Keys(Model, frozen=True):
    items: list[Key]
