"""The rows of the audit log, in the order of their columns."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.stores.sql.schema.table import Table


class AuditRow(Struct, frozen=True):
    chain: str
    seq: int
    at: Micros
    actor_kind: str
    actor_id: str
    actor_name: str
    user_id: str
    address: str
    action: str
    resource: str
    resource_id: str
    old_values: str | None
    new_values: str | None
    previous: str
    hash: str


class AuditHeadRow(Struct, frozen=True):
    chain: str
    seq: int
    hash: str
    closing: int = 0
    """1 while the chain is deleted with its tenant."""


AUDIT_LOG: Final = Table("audit_log", AuditRow)
AUDIT_HEADS: Final = Table("audit_heads", AuditHeadRow)
