"""Create, change and delete users of a tenant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from timeball.domain.errors import Conflict, Invalid, PreconditionFailed
from timeball.domain.identity.caller import Caller
from timeball.domain.identity.user import User
from timeball.operation.context import OperationContext
from timeball.operation.tenants.find import find_user

MAX_USER_ID_LENGTH: Final = 200


async def create_user(context: OperationContext, caller: Caller, user: User) -> User:
    """Create a user of the caller's tenant. Raise `Forbidden` if its role is above that of the caller, and `Conflict`
    if the id or the subject is in use."""
    _check(user)
    caller.require_grant(user.role)
    now = context.store.now()
    return await context.store.create_user(replace(user, tenant=caller.tenant, created_at=now, updated_at=now))


async def update_user(
    context: OperationContext,
    caller: Caller,
    user_id: str,
    change: Callable[[User], User],
    *,
    if_match: int | None = None,
) -> User:
    """Replace a user of the caller's tenant by the result of `change`. Neither the old nor the new role may be above
    that of the caller. Raise `Conflict` if callers would lock themselves out, and `PreconditionFailed` if the user has
    another version than `if_match`."""
    while True:
        found = await find_user(context, caller.tenant, user_id)
        if if_match is not None and found.version != if_match:
            raise PreconditionFailed(f"user {user_id!r} is at version {found.version}, not {if_match}; read it again")
        changed = change(found)
        _check(changed)
        caller.require_grant(found.role)
        caller.require_grant(changed.role)
        if found.id == caller.user_id and (changed.role, changed.state) != (found.role, found.state):
            raise _is_own(user_id)
        if changed == found:
            return found
        try:
            return await context.store.update_user(replace(changed, updated_at=context.store.now()))
        except PreconditionFailed:  # another request changed it in between
            if if_match is not None:
                raise


async def delete_user(context: OperationContext, caller: Caller, user_id: str) -> None:
    """Delete a user of the caller's tenant, and revoke its keys. The jobs of the user stay, with its id."""
    found = await find_user(context, caller.tenant, user_id)
    caller.require_grant(found.role)
    if found.id == caller.user_id:
        raise _is_own(user_id)
    await context.store.delete_user(caller.tenant, user_id)


def _check(user: User) -> None:
    if not 0 < len(user.id) <= MAX_USER_ID_LENGTH or not user.id.isprintable() or user.id.strip() != user.id:
        raise Invalid(
            f"a userId has 1 to {MAX_USER_ID_LENGTH} printable characters, without spaces at its ends", "/userId"
        )
    if "/" in user.id or "\\" in user.id or user.id in (".", ".."):
        raise Invalid("a userId has no slashes, and is neither '.' nor '..'", "/userId")
    if user.role == "worker":
        raise Invalid("a user cannot have the role 'worker': create a key with that role", "/role")
    if user.email and not _is_address(user.email):
        raise Invalid(f"{user.email[:100]!r} is not an e-mail address", "/email")
    if user.subject is not None and not user.subject.isprintable():
        raise Invalid("a subject consists of printable characters", "/subject")


def _is_address(text: str) -> bool:
    local, _, host = text.rpartition("@")
    return bool(local and host) and text.isprintable() and " " not in text


def _is_own(user_id: str) -> Conflict:
    return Conflict(f"{user_id!r} is your own user; let another admin do this")
