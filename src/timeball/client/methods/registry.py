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

    def put_task(self, task_id: str, task: Mapping[str, Any], *, version: int | None = None) -> Task:
        """Register or replace a task, in the JSON of a job's task. Jobs use the new version from their next run on.
        With a version, the server refuses the change if the task has another one."""
        return self.ask(requests.put_task(task_id, task, version=version))

    def delete_task(self, task_id: str) -> None:
        """Delete a registered task. The server refuses this while a job that is not cancelled refers to it. It does not
        check references in the tasks of workflows: such a task then fails, and its error names the missing task."""
        self.ask(requests.delete_task(task_id))

    def calendars(self) -> Iterator[Calendar]:
        """Yield all calendars."""
        return self._pages(lambda cursor: requests.calendars(cursor=cursor))

    def calendar(self, name: str) -> Calendar:
        """Return a calendar."""
        return self.ask(requests.calendar(name))

    def put_calendar(
        self,
        name: str,
        entries: Sequence[Mapping[str, Any]],
        *,
        timezone: str = "UTC",
        description: str = "",
        version: int | None = None,
    ) -> Calendar:
        """Create or replace a calendar. All fires after the answer use the new calendar. Each entry has `dates`, or
        `from` and `to`, or `cron` and `for`, and optionally a `reason`. With a version, the server refuses the change
        if the calendar has another one."""
        body = {"timezone": timezone, "description": description, "entries": list(entries)}
        return self.ask(requests.put_calendar(name, body, version=version))

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

    def create_key(
        self,
        role: str = "worker",
        name: str = "",
        *,
        tenant: str | None = None,
        scopes: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        tenants: Sequence[str] | None = None,
        user_id: str | None = None,
        expires_at: When | None = None,
    ) -> Key:
        """Create an API key. The secret is in `key` of this answer only: the server stores its digest. `tenant` is the
        tenant of the key, if it is another one than that of this client; `scopes` are the only permissions of the key;
        `labels` and `tenants` limit the workers with a worker key."""
        rules = {"scopes": scopes, "labels": labels, "tenants": tenants, "userId": user_id}
        return self.ask(requests.create_key(role, name, rules, tenant=tenant, expires_at=expires_at))

    def rotate_key(self, key_id: str, *, overlap: str | int = "1d") -> Key:
        """Create a key with the same rules, and let the old one expire after `overlap`."""
        return self.ask(requests.rotate_key(key_id, overlap))

    def api_keys(self) -> list[Key]:
        """Return all API keys of the tenant, without their secrets."""
        return list(self._pages(lambda cursor: requests.keys(cursor=cursor)))

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

    async def put_task(self, task_id: str, task: Mapping[str, Any], *, version: int | None = None) -> Task:
        """Register or replace a task, in the JSON of a job's task. Jobs use the new version from their next run on.
        With a version, the server refuses the change if the task has another one."""
        return await self.ask(requests.put_task(task_id, task, version=version))

    async def delete_task(self, task_id: str) -> None:
        """Delete a registered task. The server refuses this while a job that is not cancelled refers to it. It does not
        check references in the tasks of workflows: such a task then fails, and its error names the missing task."""
        await self.ask(requests.delete_task(task_id))

    def calendars(self) -> AsyncIterator[Calendar]:
        """Yield all calendars."""
        return self._pages(lambda cursor: requests.calendars(cursor=cursor))

    async def calendar(self, name: str) -> Calendar:
        """Return a calendar."""
        return await self.ask(requests.calendar(name))

    async def put_calendar(
        self,
        name: str,
        entries: Sequence[Mapping[str, Any]],
        *,
        timezone: str = "UTC",
        description: str = "",
        version: int | None = None,
    ) -> Calendar:
        """Create or replace a calendar. All fires after the answer use the new calendar. Each entry has `dates`, or
        `from` and `to`, or `cron` and `for`, and optionally a `reason`. With a version, the server refuses the change
        if the calendar has another one."""
        body = {"timezone": timezone, "description": description, "entries": list(entries)}
        return await self.ask(requests.put_calendar(name, body, version=version))

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

    async def create_key(
        self,
        role: str = "worker",
        name: str = "",
        *,
        tenant: str | None = None,
        scopes: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        tenants: Sequence[str] | None = None,
        user_id: str | None = None,
        expires_at: When | None = None,
    ) -> Key:
        """Create an API key. The secret is in `key` of this answer only: the server stores its digest. `tenant` is the
        tenant of the key, if it is another one than that of this client; `scopes` are the only permissions of the key;
        `labels` and `tenants` limit the workers with a worker key."""
        rules = {"scopes": scopes, "labels": labels, "tenants": tenants, "userId": user_id}
        return await self.ask(requests.create_key(role, name, rules, tenant=tenant, expires_at=expires_at))

    async def rotate_key(self, key_id: str, *, overlap: str | int = "1d") -> Key:
        """Create a key with the same rules, and let the old one expire after `overlap`."""
        return await self.ask(requests.rotate_key(key_id, overlap))

    async def api_keys(self) -> list[Key]:
        """Return all API keys of the tenant, without their secrets."""
        return [key async for key in self._pages(lambda cursor: requests.keys(cursor=cursor))]

    async def revoke_key(self, key_id: str) -> None:
        """Revoke an API key. The server that gets the request refuses the key at once, all others within 3 seconds."""
        await self.ask(requests.revoke_key(key_id))
