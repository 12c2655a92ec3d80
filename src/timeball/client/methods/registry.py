"""Methods about registered tasks, calendars and API keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.registry import Calendar, Credential, Key, Task
from timeball.client.requests import registry as requests


class RegistryMethods(Asking):
    """Methods of `Client` about registered tasks, calendars and API keys."""

    def me(self) -> Credential:
        """Return the key, the tenant and the permissions of this client, and facts about the server."""
        return self.ask(requests.me())

    def tasks(self) -> Iterator[Task]:
        """Yield all registered tasks."""
        return self._pages(lambda cursor: requests.tasks(cursor=cursor))

    def calendars(self) -> Iterator[Calendar]:
        """Yield all calendars."""
        return self._pages(lambda cursor: requests.calendars(cursor=cursor))

    def calendar(self, name: str) -> Calendar:
        """Return a calendar."""
        return self.ask(requests.calendar(name))

    def put_calendar(
        self, name: str, entries: Sequence[Mapping[str, Any]], *, timezone: str = "UTC", description: str = ""
    ) -> Calendar:
        """Create or replace a calendar. All fires after the answer use the new calendar. Each entry has `dates`, or
        `from` and `to`, or `cron` and `for`, and optionally a `reason`."""
        body = {"timezone": timezone, "description": description, "entries": list(entries)}
        return self.ask(requests.put_calendar(name, body))

    def delete_calendar(self, name: str) -> None:
        """Delete a calendar. The server refuses this while a job that may still fire refers to the calendar."""
        self.ask(requests.delete_calendar(name))

    def create_key(self, role: str = "worker", name: str = "") -> Key:
        """Create an API key. The secret is in `key` of this answer only: the server stores its digest."""
        return self.ask(requests.create_key(role, name))


class AsyncRegistryMethods(AsyncAsking):
    """Methods of `AsyncClient` about registered tasks, calendars and API keys."""

    async def me(self) -> Credential:
        """Return the key, the tenant and the permissions of this client, and facts about the server."""
        return await self.ask(requests.me())

    def tasks(self) -> AsyncIterator[Task]:
        """Yield all registered tasks."""
        return self._pages(lambda cursor: requests.tasks(cursor=cursor))

    def calendars(self) -> AsyncIterator[Calendar]:
        """Yield all calendars."""
        return self._pages(lambda cursor: requests.calendars(cursor=cursor))

    async def calendar(self, name: str) -> Calendar:
        """Return a calendar."""
        return await self.ask(requests.calendar(name))

    async def put_calendar(
        self, name: str, entries: Sequence[Mapping[str, Any]], *, timezone: str = "UTC", description: str = ""
    ) -> Calendar:
        """Create or replace a calendar. All fires after the answer use the new calendar. Each entry has `dates`, or
        `from` and `to`, or `cron` and `for`, and optionally a `reason`."""
        body = {"timezone": timezone, "description": description, "entries": list(entries)}
        return await self.ask(requests.put_calendar(name, body))

    async def delete_calendar(self, name: str) -> None:
        """Delete a calendar. The server refuses this while a job that may still fire refers to the calendar."""
        await self.ask(requests.delete_calendar(name))

    async def create_key(self, role: str = "worker", name: str = "") -> Key:
        """Create an API key. The secret is in `key` of this answer only: the server stores its digest."""
        return await self.ask(requests.create_key(role, name))
