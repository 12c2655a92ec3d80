"""The caller of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from timeball.domain.errors import Forbidden
from timeball.domain.identity.permission import OF_ALL, Permission
from timeball.domain.identity.role import GRANTS, Role

CredentialKind = Literal["key", "jwt", "session"]


class Caller(Struct, frozen=True, kw_only=True):
    """Who makes a request. It follows from the credential alone: nothing in a path, a query or a body changes it."""

    tenant: str
    role: Role
    scopes: frozenset[Permission] | None = None
    """The only permissions of the role that the credential has; None: all of them."""
    kind: CredentialKind
    credential_id: str
    """The id of the API key, of the user of the token (`account_id`), or of the web session."""
    key_id: str | None = None
    """The API key, or the one that opened the web session; None if there is none."""
    account: str | None = None
    """The id of the user at the identity provider that opened the web session; None if there is none."""
    name: str
    """The name of the credential, or its id if it has no name."""
    user_id: str | None = None
    labels: tuple[str, ...] | None = None
    """The only labels that workers with the credential may offer; None: any labels."""
    tenants: tuple[str, ...] | None = None
    """The tenants that workers with the credential serve; None: all tenants."""

    @property
    def credential(self) -> str:
        """The id by which rate limits count requests: that of the API key, or of the user of the identity provider. Web
        sessions count for the key or the user that opened them."""
        return self.key_id or self.account or self.credential_id

    @property
    def permissions(self) -> frozenset[Permission]:
        granted = GRANTS[self.role]
        return granted if self.scopes is None else granted & (self.scopes | OF_ALL)

    def may(self, permission: Permission) -> bool:
        if permission not in GRANTS[self.role]:
            return False
        return self.scopes is None or permission in self.scopes or permission in OF_ALL

    def require_grant(self, role: Role, scopes: Sequence[Permission] | None = None) -> None:
        """Raise `Forbidden` if the caller may not create, replace or revoke a credential with this role and these
        scopes: one that could do more than the caller. An admin may manage worker keys, whose tenants are checked
        separately."""
        self.require(Permission.ADMIN)
        needed = GRANTS[role] - OF_ALL
        if scopes is not None:
            needed &= frozenset(scopes)
        if role == "worker":
            needed -= {Permission.WORKER}
        if missing := sorted(needed - self.permissions):
            what = f"the permission {missing[0].value!r}"
            raise Forbidden(f"a credential with the role {role!r} has {what}, and yours has not")

    def owner(self, user_id: str) -> str:
        """Return the user id of a job that the caller creates or changes, given the one in the request. Raise
        `Forbidden` if it is that of another user, and the caller may not set it."""
        if user_id in ("", self.user_id):
            return self.user_id or ""
        if Permission.ADMIN not in self.permissions:
            own = "has no user" if self.user_id is None else f"is of the user {self.user_id!r}"
            raise Forbidden(
                f"only an admin may set the userId of another user: this credential {own}, and the job has"
                f" {user_id[:100]!r}; leave userId out"
            )
        return user_id

    def require(self, permission: Permission) -> None:
        """Raise `Forbidden` if the caller does not have the permission."""
        if not self.may(permission):
            limited = permission in GRANTS[self.role]
            who = f"{_article(self.kind)} with the role {self.role!r}{' and limited scopes' if limited else ''}"
            raise Forbidden(f"{who} has no {permission.value!r} permission")


def _article(kind: CredentialKind) -> str:
    return "a token" if kind == "jwt" else "a key"
