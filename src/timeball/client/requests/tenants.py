"""Requests about tenants, users and usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any
from urllib.parse import quote

from timeball.client.models.registry import Tenant, Tenants, UsageGroups, User, Users
from timeball.client.requests.request import ApiRequest, get, moment_text, post

Day = date | datetime | str
"""A day in UTC, or an instant of it."""


def tenants(*, limit: int | None = None, cursor: str | None = None) -> ApiRequest[Tenants]:
    return get("/v1/tenants", Tenants, limit=limit, cursor=cursor)


def tenant(tenant_id: str) -> ApiRequest[Tenant]:
    return get(_of_tenant(tenant_id), Tenant)


def create_tenant(tenant_id: str, fields: Mapping[str, Any]) -> ApiRequest[Tenant]:
    return post("/v1/tenants", Tenant, {"tenantId": tenant_id, **fields})


def update_tenant(tenant_id: str, fields: Mapping[str, Any], *, version: int | None = None) -> ApiRequest[Tenant]:
    return _patch(_of_tenant(tenant_id), Tenant, fields, version)


def delete_tenant(tenant_id: str) -> ApiRequest[Tenant]:
    return ApiRequest(method="DELETE", path=_of_tenant(tenant_id), answer=Tenant, repeatable=True)


def usage(
    *,
    since: Day | None = None,
    until: Day | None = None,
    by: Sequence[str] | None = None,
    tenant_id: str | None = None,
    user_id: str | None = None,
    job_id: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ApiRequest[UsageGroups]:
    window = {"from": _day_text(since), "to": _day_text(until)}
    which = {"groupBy": None if by is None else ",".join(by), "tenantId": tenant_id, "userId": user_id, "jobId": job_id}
    return get("/v1/usage", UsageGroups, **window, **which, limit=limit, cursor=cursor)


def _day_text(day: Day | None) -> str | None:
    return day.isoformat() if isinstance(day, date) and not isinstance(day, datetime) else moment_text(day)


def users(*, limit: int | None = None, cursor: str | None = None) -> ApiRequest[Users]:
    return get("/v1/users", Users, limit=limit, cursor=cursor)


def user(user_id: str) -> ApiRequest[User]:
    return get(_of_user(user_id), User)


def create_user(user_id: str, fields: Mapping[str, Any]) -> ApiRequest[User]:
    return post("/v1/users", User, {"userId": user_id, **fields})


def update_user(user_id: str, fields: Mapping[str, Any], *, version: int | None = None) -> ApiRequest[User]:
    return _patch(_of_user(user_id), User, fields, version)


def delete_user(user_id: str) -> ApiRequest[bytes]:
    return ApiRequest(method="DELETE", path=_of_user(user_id), answer=bytes, repeatable=True)


def _patch(path: str, answer: Any, fields: Mapping[str, Any], version: int | None) -> ApiRequest[Any]:
    """Return the request for a change. Without a version it is repeatable: a repetition sets the same values again.
    With a version, a repetition would fail, because the first request changed the version."""
    headers = {} if version is None else {"If-Match": f'"{version}"'}
    return ApiRequest(
        method="PATCH", path=path, answer=answer, body=dict(fields), headers=headers, repeatable=version is None
    )


def _of_tenant(tenant_id: str) -> str:
    return f"/v1/tenants/{quote(tenant_id, safe='')}"


def _of_user(user_id: str) -> str:
    return f"/v1/users/{quote(user_id, safe='')}"
