"""The rows of tenants, users and API keys, in the order of their columns."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.stores.sql.schema.table import Table


class TenantRow(Struct, frozen=True):
    id: str
    name: str
    description: str
    state: str
    limits: str
    """The limits and prices as JSON."""
    version: int
    created_at: Micros
    updated_at: Micros


class UserRow(Struct, frozen=True):
    tenant: str
    id: str
    name: str
    email: str
    role: str
    state: str
    subject: str | None
    version: int
    created_at: Micros
    updated_at: Micros
    last_seen_at: Micros | None


class KeyRow(Struct, frozen=True):
    id: str
    tenant: str
    name: str
    role: str
    digest: str
    created_at: Micros
    revoked_at: Micros | None
    bootstrap: str | None
    bootstrap_at: Micros | None
    scopes: str | None
    """The permissions as a JSON list, like `labels` and `tenants`; None: all of the role."""
    labels: str | None
    tenants: str | None
    user_id: str | None
    expires_at: Micros | None
    last_used_at: Micros | None
    replaces: str | None


class DeletionRow(Struct, frozen=True):
    """The deletion of a tenant that has not ended."""

    tenant: str
    requested_at: Micros
    actor_kind: str
    actor_id: str
    actor_name: str
    user_id: str
    address: str
    phase: str
    place: str
    counts: str
    """Numbers by kind, as JSON."""


class QuotaUseRow(Struct, frozen=True):
    """What a tenant uses of its quotas."""

    tenant: str
    runs_of_days: str
    """The numbers of runs by days since 1970-01-01, as JSON."""
    stored_bytes: int


TENANTS: Final = Table("tenants", TenantRow)
TENANT_DELETIONS: Final = Table("tenant_deletions", DeletionRow)
USERS: Final = Table("users", UserRow)
KEYS: Final = Table("keys", KeyRow)
QUOTA_USE: Final = Table("quota_use", QuotaUseRow)
