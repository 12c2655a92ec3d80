"""Roles, and the permissions that each of them grants."""

from __future__ import annotations

from typing import Final, Literal

from timeball.domain.identity.permission import OF_ALL, Permission

Role = Literal["viewer", "operator", "editor", "admin", "worker", "system"]
"""A viewer reads, an operator also runs, an editor also defines, an admin also manages keys and users: each within its
tenant. A worker only executes. The role system manages tenants and the fleet, and is an admin of its own tenant."""

_VIEWER: Final = OF_ALL | {Permission.READ}
_OPERATOR: Final = _VIEWER | {Permission.RUN}
_EDITOR: Final = _OPERATOR | {Permission.EDIT}
_ADMIN: Final = _EDITOR | {Permission.ADMIN}

GRANTS: Final[dict[Role, frozenset[Permission]]] = {
    "viewer": _VIEWER,
    "operator": _OPERATOR,
    "editor": _EDITOR,
    "admin": _ADMIN,
    "worker": OF_ALL | {Permission.WORKER},
    "system": frozenset(Permission),
}


def lower_role(one: Role, other: Role) -> Role:
    """Return the one of two roles that grants less. If neither grants all that the other does, it is the first one."""
    return other if GRANTS[one] >= GRANTS[other] else one
