"""Methods about registered tasks, calendars and API keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.registry import Calendar, CalendarPreview, Credential, Key, Task
from timeball.client.requests import registry as requests
from timeball.client.requests.request import When


class RegistryMethods(Asking):
    """Methods of `Client` about registered tasks, calendars and API keys."""

    def me(self) -> Credential:
        """Return the key, the tenant and the permissions of this client, and facts about the server."""
        return self.ask(requests.me())

    def tasks(self) -> Iterator[Task]:
        """Yield all registered tasks."""
        return self._pages(lambda cursor: requests.tasks(cursor=cursor))

    def task(self, task_id: str) -> Task:
        """Return a registered task."""
        return self.ask(requests.task(task_id))

    def put_task(self, task_id: str, task: Mapping[str, Any]) -> Task:
        """Register or replace a task, in the JSON of a job's task. Jobs use the new version from their next run on."""
        return self.ask(requests.put_task(task_id, task))

    def delete_task(self, task_id: str) -> None:
        """Delete a registered task. The server refuses this while a job that is not cancelled refers to it."""
        self.ask(requests.delete_task(task_id))

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

    def preview_calendar(
        self,
        entries: Sequence[Mapping[str, Any]],
        *,
        timezone: str = "UTC",
        since: When | None = None,
        until: When | None = None,
    ) -> CalendarPreview:
        """Return the closed times of a calendar that is not stored, or not yet. The default range is the next 31
        days."""
        body = {"timezone": timezone, "entries": list(entries)}
        return self.ask(requests.preview_calendar(body, since=since, until=until))

    def delete_calendar(self, name: str) -> None:
        """Delete a calendar. The server refuses this while a job that may still fire refers to the calendar."""
        self.ask(requests.delete_calendar(name))

    def create_key(self, role: str = "worker", name: str = "") -> Key:
        """Create an API key. The secret is in `key` of this answer only: the server stores its digest."""
        return self.ask(requests.create_key(role, name))

    def api_keys(self) -> list[Key]:
        """Return all API keys of the tenant, without their secrets."""
        return (self.ask(requests.keys())).items

    def revoke_key(self, key_id: str) -> None:
        """Revoke an API key. The server that gets the request refuses the key at once, all others within 3 seconds."""
        self.ask(requests.revoke_key(key_id))


class AsyncRegistryMethods(AsyncAsking):
    """Methods of `AsyncClient` about registered tasks, calendars and API keys."""

    async def me(self) -> Credential:
        """Return the key, the tenant and the permissions of this client, and facts about the server."""
        return await self.ask(requests.me())

    def tasks(self) -> AsyncIterator[Task]:
        """Yield all registered tasks."""
        return self._pages(lambda cursor: requests.tasks(cursor=cursor))

    async def task(self, task_id: str) -> Task:
        """Return a registered task."""
        return await self.ask(requests.task(task_id))

    async def put_task(self, task_id: str, task: Mapping[str, Any]) -> Task:
        """Register or replace a task, in the JSON of a job's task. Jobs use the new version from their next run on."""
        return await self.ask(requests.put_task(task_id, task))

    async def delete_task(self, task_id: str) -> None:
        """Delete a registered task. The server refuses this while a job that is not cancelled refers to it."""
        await self.ask(requests.delete_task(task_id))

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

    async def preview_calendar(
        self,
        entries: Sequence[Mapping[str, Any]],
        *,
        timezone: str = "UTC",
        since: When | None = None,
        until: When | None = None,
    ) -> CalendarPreview:
        """Return the closed times of a calendar that is not stored, or not yet. The default range is the next 31
        days."""
        body = {"timezone": timezone, "entries": list(entries)}
        return await self.ask(requests.preview_calendar(body, since=since, until=until))

    async def delete_calendar(self, name: str) -> None:
        """Delete a calendar. The server refuses this while a job that may still fire refers to the calendar."""
        await self.ask(requests.delete_calendar(name))

    async def create_key(self, role: str = "worker", name: str = "") -> Key:
        """Create an API key. The secret is in `key` of this answer only: the server stores its digest."""
        return await self.ask(requests.create_key(role, name))

    async def api_keys(self) -> list[Key]:
        """Return all API keys of the tenant, without their secrets."""
        return (await self.ask(requests.keys())).items

    async def revoke_key(self, key_id: str) -> None:
        """Revoke an API key. The server that gets the request refuses the key at once, all others within 3 seconds."""
        await self.ask(requests.revoke_key(key_id))
