"""Users: people and programs of a tenant. Jobs, keys and bearer tokens name them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from timeball.domain.identity.role import Role
from timeball.domain.instant import Micros

UserState = Literal["active", "disabled"]
"""The credentials of a disabled user are refused."""


class User(Struct, frozen=True, kw_only=True):
    id: str
    """The user id of jobs. It is unique in the tenant."""
    tenant: str
    name: str = ""
    email: str = ""
    """The address for notifications; empty: there is none."""
    role: Role
    """The highest role that a key of the user has."""
    state: UserState = "active"
    subject: str | None = None
    """The id of the user at the identity provider; None: the user has no account there. It is unique in the tenant."""
    version: int = 1
    """Grows with each change."""
    created_at: Micros
    updated_at: Micros
    last_seen_at: Micros | None = None
    """At most a minute before the last request of the user."""
