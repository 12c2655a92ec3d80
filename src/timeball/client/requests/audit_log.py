"""Requests about the audit log."""

from __future__ import annotations

from timeball.client.models.registry import AuditEntries
from timeball.client.requests.request import ApiRequest, When, get, moment_text


def audit_log(
    *,
    scope: str | None = None,
    actor: str | None = None,
    action: str | None = None,
    resource: str | None = None,
    since: When | None = None,
    until: When | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ApiRequest[AuditEntries]:
    bounds = {"from": moment_text(since), "to": moment_text(until)}
    return get(
        "/v1/audit-log",
        AuditEntries,
        scope=scope,
        actor=actor,
        action=action,
        resource=resource,
        **bounds,
        limit=limit,
        cursor=cursor,
    )


def export(*, scope: str | None = None) -> ApiRequest[bytes]:
    """Return the request for all entries as a stream of lines."""
    return get("/v1/audit-log/export", bytes, scope=scope)
