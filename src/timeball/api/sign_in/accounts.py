"""The accounts of users of the identity provider: their tenants, and what the store knows about the users."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, structs

from timeball.api.sign_in.remember import REMEMBER, remember
from timeball.domain.errors import Unauthorized
from timeball.domain.identity.caller import Caller
from timeball.domain.identity.role import lower_role
from timeball.domain.identity.user import User
from timeball.domain.instant import Micros
from timeball.operation.context import OperationContext


class _Account(Struct, frozen=True):
    has_tenant: bool
    """True if the tenant exists and is not being deleted."""
    user: User | None
    """None: the store does not know the user."""


_UNKNOWN: Final[tuple[Micros, _Account | None]] = (0, None)
"""The cache entry of an account that was not looked up; it has always expired."""


class Accounts:
    """Looks up accounts, and caches them for a short time."""

    def __init__(self, context: OperationContext) -> None:
        self._context = context
        self._known: dict[tuple[str, str], tuple[Micros, _Account]] = {}

    async def admit(self, caller: Caller, subject: str) -> Caller:
        """Return the caller with the id that the store has for its user, and with the lower of the roles in the token
        and in the store. `subject` is the id of the user at the identity provider. A user that the store does not know
        is returned unchanged. Raise `Unauthorized` if the tenant does not exist or is being deleted, or if the user is
        disabled."""
        account = await self._account(caller.tenant, subject)
        if not account.has_tenant:
            raise Unauthorized("the token names a tenant that does not exist")
        if account.user is None:
            return caller
        if account.user.state == "disabled":
            raise Unauthorized(f"the user {account.user.id!r} is disabled")
        return structs.replace(caller, user_id=account.user.id, role=lower_role(caller.role, account.user.role))

    def forget_tenant(self, tenant: str) -> None:
        """Remove the users of a tenant from the cache."""
        for user in [user for user in self._known if user[0] == tenant]:
            del self._known[user]

    async def _account(self, tenant: str, subject: str) -> _Account:
        now = self._context.clock.monotonic()
        until, account = self._known.get((tenant, subject)) or _UNKNOWN
        if account is None or now >= until:
            store = self._context.store
            found = await store.tenant(tenant)
            has_tenant = found is not None and found.state == "active"
            user = await store.user_by_subject(tenant, subject) if has_tenant else None
            account = _Account(has_tenant, user)
            remember(self._known, (tenant, subject), (now + REMEMBER, account))
            if user is not None:
                self._context.credential_uses.note(None, tenant, user.id, store.now())
        return account
