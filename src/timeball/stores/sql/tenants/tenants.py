"""Tenants: create, read, list, change; and their prices of each day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

import msgspec
from msgspec.structs import replace

from timeball.domain.audit_log.entry import SYSTEM_CHAIN
from timeball.domain.audit_log.values import Values
from timeball.domain.errors import Conflict, NotFound, PreconditionFailed
from timeball.domain.retention import day_of
from timeball.domain.tenant import Prices, QuotaLimits, Tenant, TenantLimits
from timeball.domain.usage import PriceList
from timeball.ports.store.paging import Page
from timeball.ports.store.tenants import QuotaUse
from timeball.stores.sql.audit_log.recording import record
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.rows.values import as_json, plain
from timeball.stores.sql.schema.table import as_tuple
from timeball.stores.sql.schema.tenants import TENANTS, TenantRow
from timeball.stores.sql.statements import query
from timeball.stores.sql.tenants import quotas, running_quota

TENANT = query("tenant")
ALL_TENANTS = query("all_tenants")
TENANT_LIMITS = query("tenant_limits")
LIST_TENANTS = query("list_tenants")
LOCK_TENANT = query("lock_tenant")
UPDATE_TENANT = query("update_tenant")
PRICE_LISTS = query("price_lists")
HAS_PRICES = query("has_prices")
PUT_PRICES = query("put_prices")
DELETION_RECEIPT = query("deletion_receipt")
_decode_prices = msgspec.json.Decoder(Prices).decode

MAX_COUNTED_JOBS: Final = 1_000_000


class Tenants(StorePart):
    async def create_tenant(self, tenant: Tenant) -> Tenant:
        async def work(tx: Tx) -> Tenant:
            found = await locked_tenant(tx, tenant.id)
            if found is None:
                if await tx.fetch(DELETION_RECEIPT, tenant=plain(tenant.id)):
                    raise Conflict(f"a tenant {tenant.id!r} was deleted, and its id cannot be used again")
                await tx.insert_missing(TENANTS, [as_tuple(_row(tenant))])
                found = await locked_tenant(tx, tenant.id)
                assert found is not None
                if found.created_at == tenant.created_at:
                    record(tx, "tenant", tenant.id, after=_values(tenant), chain=SYSTEM_CHAIN)
            if found.created_at != tenant.created_at:
                raise Conflict(f"there is a tenant {tenant.id!r} already")
            return found

        return await self._db.write(work)

    async def tenant(self, tenant_id: str) -> Tenant | None:
        async def work(tx: Tx) -> Tenant | None:
            return next(map(tenant_of, await tx.fetch(TENANT, id=plain(tenant_id))), None)

        return await self._db.read(work)

    async def tenants(self) -> list[Tenant]:
        async def work(tx: Tx) -> list[Tenant]:
            return [tenant_of(row) for row in await tx.fetch(ALL_TENANTS)]

        return await self._db.read(work)

    async def tenant_limits(self) -> dict[str, TenantLimits]:
        async def work(tx: Tx) -> dict[str, TenantLimits]:
            return {tenant: _limits(stored) for tenant, stored in await tx.fetch(TENANT_LIMITS)}

        return await self._db.read(work)

    def enforce_quotas(self, limits: Mapping[str, QuotaLimits]) -> None:
        self._quotas.by_tenant = limits

    async def quota_use(self, tenant_id: str) -> QuotaUse:
        async def work(tx: Tx) -> QuotaUse:
            tenant, now = plain(tenant_id), self._db.now()
            return QuotaUse(
                running=(await running_quota.running(tx, [tenant])).get(tenant, 0),
                jobs=await quotas.jobs_that_may_fire(tx, tenant, MAX_COUNTED_JOBS),
                runs_today=await quotas.runs_of_today(tx, tenant, now),
                stored_bytes=await quotas.stored_bytes_of(tx, tenant),
            )

        return await self._db.read(work, slow=True)

    async def list_tenants(self, cursor: str | None, limit: int) -> Page[Tenant]:
        async def work(tx: Tx) -> Page[Tenant]:
            rows = await tx.fetch(LIST_TENANTS, after=plain(cursor or ""), limit=limit + 1)
            tenants = [tenant_of(row) for row in rows[:limit]]
            return Page(tenants, tenants[-1].id if len(rows) > limit else None)

        return await self._db.read(work, slow=True)

    async def price_lists(self, tenants: Sequence[str]) -> dict[str, PriceList]:
        async def work(tx: Tx) -> dict[str, PriceList]:
            found: dict[str, PriceList] = {}
            for tenant, rows in groupby(await tx.fetch(PRICE_LISTS, b=sorted(map(plain, tenants))), lambda row: row[0]):
                listed = [*rows]
                changes = [(day, _decode_prices(prices)) for _, _, day, prices in listed if day is not None]
                found[tenant] = PriceList(changes, msgspec.json.decode(listed[0][1], type=TenantLimits).prices)
            return found

        return await self._db.read(work, slow=True)

    async def update_tenant(self, tenant: Tenant) -> Tenant:
        async def work(tx: Tx) -> Tenant:
            found = await locked_tenant(tx, tenant.id)
            updated = replace(tenant, version=tenant.version + 1)
            if found is None:
                raise NotFound("tenant", tenant.id)
            if found == updated:  # this call repeats one whose answer was lost
                return updated
            if found.version != tenant.version:
                raise PreconditionFailed(f"the tenant {tenant.id!r} has version {found.version} now")
            if found.state == "deleting" and tenant.state != "deleting":
                raise Conflict(f"the tenant {tenant.id!r} is being deleted")
            row = _row(tenant)
            changed = {name: getattr(row, name) for name in TenantRow.__struct_fields__ if name != "created_at"}
            ((_,),) = await tx.fetch(UPDATE_TENANT, **changed)
            await _note_prices(tx, found, updated)
            record(tx, "tenant", tenant.id, before=_values(found), after=_values(updated), chain=SYSTEM_CHAIN)
            return updated

        return await self._db.write(work)


async def _note_prices(tx: Tx, before: Tenant, after: Tenant) -> None:
    """Keep the prices that a tenant had until the day of a change, and set the new ones from this day on."""
    if before.limits.prices == after.limits.prices:
        return
    if not await tx.fetch(HAS_PRICES, tenant=after.id):
        await tx.execute(PUT_PRICES, tenant=after.id, day=0, prices=as_json(before.limits.prices))
    day = day_of(after.updated_at)
    await tx.execute(PUT_PRICES, tenant=after.id, day=day, prices=as_json(after.limits.prices))


async def locked_tenant(tx: Tx, tenant_id: str) -> Tenant | None:
    return next(map(tenant_of, await tx.fetch(LOCK_TENANT, id=plain(tenant_id))), None)


def _row(tenant: Tenant) -> TenantRow:
    return TenantRow(
        id=plain(tenant.id),
        name=plain(tenant.name),
        description=plain(tenant.description),
        state=tenant.state,
        limits=as_json(tenant.limits),
        version=tenant.version,
        created_at=tenant.created_at,
        updated_at=tenant.updated_at,
    )


def tenant_of(row: Row) -> Tenant:
    found = TenantRow(*row)
    return Tenant(
        id=found.id,
        name=found.name,
        description=found.description,
        state="active" if found.state == "active" else "deleting",
        limits=_limits(found.limits),
        version=found.version,
        created_at=found.created_at,
        updated_at=found.updated_at,
    )


def _limits(stored: str) -> TenantLimits:
    return msgspec.json.decode(stored, type=TenantLimits)


def _values(tenant: Tenant) -> Values:
    """Return what the audit log keeps of a tenant."""
    return {
        "name": tenant.name,
        "description": tenant.description,
        "state": tenant.state,
        "limits": msgspec.to_builtins(tenant.limits),
    }
