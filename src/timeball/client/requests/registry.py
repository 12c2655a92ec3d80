"""Requests about registered tasks, calendars and API keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from timeball.client.models.registry import Calendar, CalendarPreview, Calendars, Credential, Key, Keys, Task, Tasks
from timeball.client.requests.request import ApiRequest, When, get, moment_text, post


def tasks(*, limit: int | None = None, cursor: str | None = None) -> ApiRequest[Tasks]:
    return get("/v1/tasks", Tasks, limit=limit, cursor=cursor)


def task(task_id: str) -> ApiRequest[Task]:
    return get(f"/v1/tasks/{quote(task_id, safe='')}", Task)


def put_task(task_id: str, body: Mapping[str, Any], *, version: int | None = None) -> ApiRequest[Task]:
    path = f"/v1/tasks/{quote(task_id, safe='')}"
    headers = {} if version is None else {"If-Match": f'"{version}"'}
    return ApiRequest(method="PUT", path=path, answer=Task, body=body, headers=headers, repeatable=True)


def delete_task(task_id: str) -> ApiRequest[bytes]:
    return ApiRequest(method="DELETE", path=f"/v1/tasks/{quote(task_id, safe='')}", answer=bytes, repeatable=True)


def calendars(*, limit: int | None = None, cursor: str | None = None) -> ApiRequest[Calendars]:
    return get("/v1/calendars", Calendars, limit=limit, cursor=cursor)


def calendar(name: str) -> ApiRequest[Calendar]:
    return get(_of_calendar(name), Calendar)


def put_calendar(name: str, body: Mapping[str, Any], *, version: int | None = None) -> ApiRequest[Calendar]:
    path = _of_calendar(name)
    headers = {} if version is None else {"If-Match": f'"{version}"'}
    return ApiRequest(method="PUT", path=path, answer=Calendar, body=body, headers=headers, repeatable=True)


def preview_calendar(
    body: Mapping[str, Any], *, since: When | None = None, until: When | None = None
) -> ApiRequest[CalendarPreview]:
    """The request is repeatable although it is a POST, because it changes nothing on the server."""
    bounds = {"from": moment_text(since), "to": moment_text(until)}
    given = {name: value for name, value in bounds.items() if value is not None}
    return post("/v1/calendars:preview", CalendarPreview, {"calendar": body, **given}, repeatable=True)


def delete_calendar(name: str) -> ApiRequest[bytes]:
    return ApiRequest(method="DELETE", path=_of_calendar(name), answer=bytes, repeatable=True)


def _of_calendar(name: str) -> str:
    return f"/v1/calendars/{quote(name, safe='')}"


def create_key(
    role: str,
    name: str,
    rules: Mapping[str, Any] | None = None,
    *,
    tenant: str | None = None,
    expires_at: When | None = None,
) -> ApiRequest[Key]:
    given = {**(rules or {}), "expiresAt": moment_text(expires_at)}
    body = {"role": role, "name": name, **{field: value for field, value in given.items() if value is not None}}
    return post("/v1/api-keys" if tenant is None else f"/v1/tenants/{quote(tenant, safe='')}/api-keys", Key, body)


def rotate_key(key_id: str, overlap: str | int) -> ApiRequest[Key]:
    return post(f"/v1/api-keys/{quote(key_id, safe='')}/rotate", Key, {"overlap": overlap})


def me() -> ApiRequest[Credential]:
    return get("/v1/me", Credential)


def keys(*, limit: int | None = None, cursor: str | None = None) -> ApiRequest[Keys]:
    return get("/v1/api-keys", Keys, limit=limit, cursor=cursor)


def revoke_key(key_id: str) -> ApiRequest[bytes]:
    path = f"/v1/api-keys/{quote(key_id, safe='')}"
    return ApiRequest(method="DELETE", path=path, answer=bytes, repeatable=True)
