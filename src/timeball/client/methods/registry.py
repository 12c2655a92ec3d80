"""Methods about registered tasks, calendars and API keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.registry import Calendar, Key, Task
from timeball.client.requests import registry as requests


class RegistryMethods(Asking):
    """Of `Client`."""

    def tasks(self) -> Iterator[Task]:
        return self._pages(lambda cursor: requests.tasks(cursor=cursor))

    def calendars(self) -> Iterator[Calendar]:
        return self._pages(lambda cursor: requests.calendars(cursor=cursor))

    def calendar(self, name: str) -> Calendar:
        return self.ask(requests.calendar(name))

    def put_calendar(
        self, name: str, entries: Sequence[Mapping[str, Any]], *, timezone: str = "UTC", description: str = ""
    ) -> Calendar:
        """Create a calendar, or replace it: no fire after the answer follows the old one. Each entry has `dates`, or
        `from` and `to`, or `cron` and `for`; and, if you like, a `reason`."""
        body = {"timezone": timezone, "description": description, "entries": list(entries)}
        return self.ask(requests.put_calendar(name, body))

    def delete_calendar(self, name: str) -> None:
        """Refused while a job that may still fire refers to it."""
        self.ask(requests.delete_calendar(name))

    def create_key(self, role: str = "worker", name: str = "") -> Key:
        """A new API key. Its `key` is told this once and kept nowhere."""
        return self.ask(requests.create_key(role, name))


class AsyncRegistryMethods(AsyncAsking):
    """Of `AsyncClient`."""

    def tasks(self) -> AsyncIterator[Task]:
        return self._pages(lambda cursor: requests.tasks(cursor=cursor))

    def calendars(self) -> AsyncIterator[Calendar]:
        return self._pages(lambda cursor: requests.calendars(cursor=cursor))

    async def calendar(self, name: str) -> Calendar:
        return await self.ask(requests.calendar(name))

    async def put_calendar(
        self, name: str, entries: Sequence[Mapping[str, Any]], *, timezone: str = "UTC", description: str = ""
    ) -> Calendar:
        """Create a calendar, or replace it: no fire after the answer follows the old one. Each entry has `dates`, or
        `from` and `to`, or `cron` and `for`; and, if you like, a `reason`."""
        body = {"timezone": timezone, "description": description, "entries": list(entries)}
        return await self.ask(requests.put_calendar(name, body))

    async def delete_calendar(self, name: str) -> None:
        """Refused while a job that may still fire refers to it."""
        await self.ask(requests.delete_calendar(name))

    async def create_key(self, role: str = "worker", name: str = "") -> Key:
        """A new API key. Its `key` is told this once and kept nowhere."""
        return await self.ask(requests.create_key(role, name))
