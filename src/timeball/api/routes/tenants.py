"""Routes of tenants: their names, limits and prices. The tenant of every other request comes from its credential."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from timeball.api.bodies import LimitsBody, NewKey, NewTenant, TenantChange
from timeball.api.query import PageQuery
from timeball.api.routes.jobs.jobs import if_match
from timeball.api.routes.keys import NewKeyAnswer, key_answer, rules_of
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.api.rows import rows
from timeball.domain.errors import NotFound
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import render
from timeball.domain.tenant import NO_LIMITS, DeletionPhase, Tenant, TenantDeletion, TenantLimits, TenantState
from timeball.operation.registry.create_key import create_key
from timeball.operation.tenants.create_tenant import create_tenant
from timeball.operation.tenants.delete_tenant import delete_tenant
from timeball.operation.tenants.find import find_tenant
from timeball.operation.tenants.update_tenant import update_tenant


class DeletionView(Struct, frozen=True, rename="camel", kw_only=True):
    """How far the deletion of a tenant is."""

    requested_at: str
    requested_by: str
    """The name of the credential that asked for it."""
    phase: DeletionPhase
    deleted: dict[str, int]
    """What was deleted so far: rows by table, `objects`, `archiveObjects` and `archivedRuns`."""


class TenantUse(Struct, frozen=True, rename="camel"):
    """What a tenant uses of its quotas now."""

    concurrent_runs: int
    """Running runs."""
    jobs: int
    """Jobs that may still fire; 1,000,000 if there are more."""
    runs_per_day: int | None
    """Runs that begin today, in UTC; null if the tenant has no such quota, because they are not counted then."""
    stored_bytes: int | None
    """Bytes that are stored; null if the tenant has no such quota. What was deleted is subtracted after up to an hour,
    or a minute if the quota is used up."""


class TenantView(Struct, frozen=True, rename="camel", kw_only=True):
    tenant_id: str
    name: str
    description: str
    state: TenantState
    limits: TenantLimits
    used: TenantUse | UnsetType = UNSET
    """Only if one tenant is read."""
    version: int
    created_at: str
    updated_at: str
    deletion: DeletionView | None = None
    """None, unless the tenant is being deleted."""


class TenantList(Struct, frozen=True, rename="camel"):
    items: list[TenantView]
    next_cursor: str | None


async def list_tenants(call: Call) -> Answer:
    query: PageQuery = call.query
    page = await call.context.store.list_tenants(query.cursor or None, query.limit)
    deletions = await _deletions(call, page.items)

    def view(tenant: Tenant) -> TenantView:
        return _view(tenant, deletions.get(tenant.id))

    shown = rows(page.items, view, "tenantId", lambda tenant: tenant.id)
    return answer_json({"items": shown, "nextCursor": page.next_cursor})


async def read(call: Call) -> Answer:
    tenant_id = call.path["tenantId"]
    if tenant_id != call.tenant and not call.caller.may(Permission.SYSTEM):
        raise NotFound("tenant", tenant_id[:100])
    tenant = await find_tenant(call.context, tenant_id)
    use = await call.context.store.quota_use(tenant_id)
    runs_per_day = None if tenant.limits.runs_per_day is None else use.runs_today
    stored_bytes = None if tenant.limits.stored_bytes is None else use.stored_bytes
    used = TenantUse(use.running, use.jobs, runs_per_day, stored_bytes)
    deletions = await _deletions(call, [tenant])
    return _answer(tenant, deletion=deletions.get(tenant_id), used=used)


async def create(call: Call) -> Answer:
    body: NewTenant = call.body
    tenant = Tenant(
        id=body.tenant_id,
        name=body.name,
        description=body.description,
        limits=_limits(body.limits),
        created_at=0,
        updated_at=0,
    )
    return _answer(await create_tenant(call.context, tenant), 201)


async def change(call: Call) -> Answer:
    body: TenantChange = call.body
    given: dict[str, Any] = {}
    if body.name is not UNSET:
        given["name"] = body.name
    if body.description is not UNSET:
        given["description"] = body.description
    if body.limits is not UNSET:
        given["limits"] = _limits(body.limits)

    def changed(tenant: Tenant) -> Tenant:
        return replace(tenant, **given)

    tenant_id = call.path["tenantId"]
    return _answer(await update_tenant(call.context, tenant_id, changed, if_match=if_match(call)))


async def delete(call: Call) -> Answer:
    tenant_id = call.path["tenantId"]
    deletion = await delete_tenant(call.context, call.caller, tenant_id, call.services.client_address(call.request))
    call.services.forget_tenant(tenant_id)
    return _answer(await find_tenant(call.context, tenant_id), 202, deletion)


async def create_key_of_tenant(call: Call) -> Answer:
    secret = call.services.new_secret()
    rules = rules_of(call.body)
    return key_answer(await create_key(call.context, call.caller, rules, secret, tenant=call.path["tenantId"]), secret)


def _limits(body: LimitsBody) -> TenantLimits:
    """Return the limits in a body. Prices that are all 0 become the default ones, which answers leave out."""
    limits = msgspec.convert(body, TenantLimits, from_attributes=True)
    return replace(limits, prices=NO_LIMITS.prices) if limits.prices == NO_LIMITS.prices else limits


def _answer(
    tenant: Tenant,
    status: int = 200,
    deletion: TenantDeletion | None = None,
    used: TenantUse | UnsetType = UNSET,
) -> Answer:
    view = replace(_view(tenant, deletion), used=used)
    return answer_json(view, status, [(b"etag", b'"%d"' % tenant.version)])


async def _deletions(call: Call, tenants: Sequence[Tenant]) -> dict[str, TenantDeletion]:
    """Return how far the deletions of those tenants are that are being deleted."""
    if all(tenant.state == "active" for tenant in tenants):
        return {}
    return {each.tenant: each for each in await call.context.store.deletions()}


def _deletion_view(deletion: TenantDeletion) -> DeletionView:
    return DeletionView(
        requested_at=render(deletion.requested_at),
        requested_by=deletion.actor.name,
        phase=deletion.phase,
        deleted=deletion.counts,
    )


def _view(tenant: Tenant, deletion: TenantDeletion | None = None) -> TenantView:
    return TenantView(
        tenant_id=tenant.id,
        name=tenant.name,
        description=tenant.description,
        state=tenant.state,
        limits=tenant.limits,
        version=tenant.version,
        created_at=render(tenant.created_at),
        updated_at=render(tenant.updated_at),
        deletion=None if deletion is None else _deletion_view(deletion),
    )


_EXAMPLE: Final = {"tenantId": "acme", "name": "ACME Ltd.", "limits": {"weight": 2, "jobs": 1000, "concurrentRuns": 40}}

ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/tenants",
        permission=Permission.SYSTEM,
        summary="List tenants",
        handle=list_tenants,
        query=PageQuery,
        answer=TenantList,
    ),
    Route(
        method="POST",
        path="/v1/tenants",
        permission=Permission.SYSTEM,
        summary="Create a tenant",
        audit="tenant.create",
        handle=create,
        body=NewTenant,
        answer=TenantView,
        status=201,
        example=_EXAMPLE,
        problems=(409,),
    ),
    Route(
        method="GET",
        path="/v1/tenants/{tenantId}",
        permission=Permission.READ,
        summary="Read a tenant",
        description=(
            "With what it uses of its quotas. Only the credential's own tenant, unless it has the permission `system`."
        ),
        handle=read,
        answer=TenantView,
        problems=(404,),
    ),
    Route(
        method="PATCH",
        path="/v1/tenants/{tenantId}",
        permission=Permission.SYSTEM,
        summary="Change a tenant",
        audit="tenant.update",
        description="Missing fields keep their values; `limits` is replaced as a whole.",
        handle=change,
        body=TenantChange,
        answer=TenantView,
        headers={"If-Match": "The version (`ETag`) that the change is based on; 412 if it is not current."},
        example={"limits": {"jobs": 1000, "prices": {"attemptSecond": "0.00002"}}},
        problems=(404, 409, 412),
    ),
    Route(
        method="DELETE",
        path="/v1/tenants/{tenantId}",
        permission=Permission.SYSTEM,
        summary="Delete a tenant",
        description="Deletes the tenant with everything it owns, for good: jobs, runs, output, users, keys, objects,"
        " archived runs and its audit log. Its credentials are refused at once, and its runs are cancelled. The rest"
        " follows in the background: `GET` shows how far it is (`deletion`), and answers 404 in the end. The id cannot"
        " be used again. The default tenant, and that of the credential, are refused.",
        handle=delete,
        audit="tenant.delete",
        answer=TenantView,
        status=202,
        problems=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/tenants/{tenantId}/api-keys",
        permission=Permission.SYSTEM,
        summary="Create an API key of a tenant",
        audit="api-key.create",
        description="The first key of a new tenant. Only this answer contains the secret.",
        handle=create_key_of_tenant,
        body=NewKey,
        answer=NewKeyAnswer,
        status=201,
        example={"role": "admin", "name": "first"},
        problems=(404, 409),
    ),
)
