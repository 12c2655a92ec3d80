"""Refuses jobs of tenants that are being deleted, in the transaction that would insert them."""

from __future__ import annotations

from collections.abc import Sequence

from timeball.domain.errors import Conflict
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.ports.store.jobs import NoTenant, Submission, Submitted
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.statements import query

DELETED_TENANTS = query("deleted_tenants")


async def refusals(tx: Tx, submissions: Sequence[Submission]) -> dict[int, Submitted]:
    """Return an error for each submission of a tenant that is being deleted or was deleted, by position. It costs a
    statement only if there are submissions of other tenants than the default one."""
    others = {each.job.tenant for each in submissions}
    others.discard(DEFAULT_TENANT)
    if not others:
        return {}
    gone = await tx.fetch(DELETED_TENANTS, b=sorted(others))
    errors = {tenant: NoTenant(Conflict(f"the tenant {tenant!r} is being deleted")) for (tenant,) in gone}
    return {at: errors[each.job.tenant] for at, each in enumerate(submissions) if each.job.tenant in errors}
