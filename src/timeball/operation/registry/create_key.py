"""Create an API key."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from timeball.domain import ids
from timeball.domain.errors import Invalid
from timeball.domain.identity.caller import Caller
from timeball.domain.identity.permission import OF_ALL, Permission
from timeball.domain.identity.role import GRANTS, Role
from timeball.domain.identity.worker_key import ALL_TENANTS
from timeball.domain.instant import DAY, Micros
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.operation.context import OperationContext
from timeball.operation.tenants.find import find_active_tenant
from timeball.ports.store.registry import Key

MAX_KEY_LIFETIME: Final = 36_525 * DAY
"""Maximum time after which a key expires, if it does."""


class NewKeyRules(Struct, frozen=True, kw_only=True):
    """What a new key may do. The docstrings of `Key` say what each field means."""

    role: Role
    name: str = ""
    scopes: Sequence[Permission] | None = None
    labels: Sequence[str] | None = None
    tenants: Sequence[str] | None = None
    user_id: str | None = None
    expires_at: Micros | None = None


async def create_key(
    context: OperationContext, caller: Caller, rules: NewKeyRules, secret: str, *, tenant: str | None = None
) -> Key:
    """Create a key of the caller's tenant, or of the given one. Only the digest of the secret is stored. Raise
    `Forbidden` if the key could do what the caller may not, and `Invalid` if the rules contradict each other."""
    if tenant is not None and tenant != caller.tenant:
        caller.require(Permission.SYSTEM)
    tenant = caller.tenant if tenant is None else tenant
    now = context.store.now()
    _check(rules, now)
    caller.require_grant(rules.role, rules.scopes)
    await find_active_tenant(context, tenant)
    await _check_user(context, tenant, rules)
    await _check_tenants(context, caller, tenant, rules)
    key = Key(
        id=ids.make("k", now, context.rng),
        tenant=tenant,
        name=rules.name,
        role=rules.role,
        digest=hashlib.sha256(secret.encode()).hexdigest(),
        created_at=now,
        scopes=_sorted(rules.scopes),
        labels=_sorted(rules.labels),
        tenants=_sorted(rules.tenants),
        user_id=rules.user_id,
        expires_at=rules.expires_at,
    )
    await context.store.add_key(key)
    return key


def _check(rules: NewKeyRules, now: Micros) -> None:
    if rules.scopes is not None:
        possible = GRANTS[rules.role] - OF_ALL
        if wrong := [scope for scope in rules.scopes if scope not in possible]:
            known = ", ".join(sorted(possible))
            raise Invalid(f"the role {rules.role!r} has no permission {wrong[0].value!r}; it has {known}", "/scopes")
        if not rules.scopes:
            raise Invalid("a key needs at least one scope; leave scopes out for all permissions of the role", "/scopes")
    for name in ("labels", "tenants"):
        if rules.role != "worker" and getattr(rules, name) is not None:
            raise Invalid(f"only a key with the role 'worker' has {name}", f"/{name}")
    if rules.tenants is not None and not rules.tenants:
        raise Invalid("a worker key serves at least one tenant; leave tenants out for its own", "/tenants")
    if rules.expires_at is not None and not now < rules.expires_at <= now + MAX_KEY_LIFETIME:
        raise Invalid("a key expires in the future, at most 100 years from now", "/expiresAt")


async def _check_user(context: OperationContext, tenant: str, rules: NewKeyRules) -> None:
    if rules.user_id is None:
        return
    user = await context.store.user(tenant, rules.user_id)
    if user is None:
        raise Invalid(f"there is no user {rules.user_id!r}; create it first", "/userId")
    if rules.role != "worker" and not GRANTS[rules.role] <= GRANTS[user.role]:
        detail = f"the user {user.id!r} has the role {user.role!r}, which grants less than the role {rules.role!r}"
        raise Invalid(detail, "/role")


async def _check_tenants(context: OperationContext, caller: Caller, tenant: str, rules: NewKeyRules) -> None:
    """Only the system may let workers serve other tenants than that of the key."""
    for at, each in enumerate(rules.tenants or ()):
        if each == tenant:
            continue
        caller.require(Permission.SYSTEM)
        if tenant != DEFAULT_TENANT:
            raise Invalid(f"only worker keys of the tenant {DEFAULT_TENANT!r} serve other tenants", f"/tenants/{at}")
        if each != ALL_TENANTS and await context.store.tenant(each) is None:
            raise Invalid(f"there is no tenant {each[:100]!r}", f"/tenants/{at}")


def _sorted(values: Sequence[str] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(sorted(set(values)))
