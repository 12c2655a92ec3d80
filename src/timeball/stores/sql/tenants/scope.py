"""What the callers of a tenant see of the fleet: the workers that serve the tenant, and what its own runs need."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from timeball.domain.dispatch.placement import TENANT_MARK, tenant_label, tenant_of
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.domain.workflow.definition import WORKFLOW_PROFILE
from timeball.ports.store.workers import WorkerRecord
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.statements import query

PROFILES_OF_TENANT = query("profiles_of_tenant")


def serving(workers: Iterable[WorkerRecord], tenant: str) -> list[WorkerRecord]:
    """Return the workers that serve a tenant, without the names of the tenants that each serves: all of them accept the
    runs of this one."""
    return [structs.replace(worker, tenants=None) for worker in workers if worker.serves(tenant)]


async def profiles_of(tx: Tx, tenant: str, limit: int) -> list[str]:
    """Return placement profiles of runs of a tenant, at most `limit`, except that of workflow runs."""
    own = "%" if tenant == DEFAULT_TENANT else f"%{tenant_label(tenant)}"
    others = f"%{TENANT_MARK}%" if tenant == DEFAULT_TENANT else ""
    found = [profile for (profile,) in await tx.fetch(PROFILES_OF_TENANT, own=own, others=others, limit=limit)]
    return [each for each in found if each != WORKFLOW_PROFILE and tenant_of(each) == tenant]
