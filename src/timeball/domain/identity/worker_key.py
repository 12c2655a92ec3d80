"""The rules of worker keys: which tenants their workers serve, and which labels they may offer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from timeball.domain.errors import Forbidden
from timeball.domain.identity.role import Role

ALL_TENANTS: Final = "*"
"""Stands for all tenants, also those that are created later. No tenant has this name."""


def served_tenants(role: Role, tenant: str, tenants: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the tenants that the workers with a key serve; None: all tenants. `tenants` are those that the key names:
    a worker key that names none serves only its own tenant, and a key with the role system serves all."""
    if tenants is None:
        return None if role == "system" else (tenant,)
    return None if ALL_TENANTS in tenants else tuple(tenants)


def check_labels(offered: Sequence[str], allowed: Sequence[str] | None) -> None:
    """Raise `Forbidden` if a worker offers a label that its key does not allow. None allows all labels."""
    if allowed is not None and (extra := sorted(set(offered) - set(allowed))):
        allows = f"only {', '.join(allowed)}" if allowed else "none"
        raise Forbidden(f"the key of this worker does not allow the label {extra[0][:100]!r}; it allows {allows}")
