"""The deletion of tenants with all their rows, a bounded number of them in each transaction.

How far a deletion is, and how much of each kind it has deleted, is stored in the transaction that deletes the rows. So
it can be interrupted at any moment, and continues where it stopped. No new rows of the tenant come in between: requests
that its credentials made just before are refused in the transactions that would insert jobs (`jobs.deleted_tenants`) or
append to its chain of the audit log (`audit_log.appending`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from timeball.domain.audit_log.change import AuditedChange, AuditedRequest
from timeball.domain.audit_log.entry import NO_HASH, SYSTEM_CHAIN, Actor
from timeball.domain.audit_log.values import Values
from timeball.domain.dispatch.placement import tenant_label
from timeball.domain.errors import NotFound
from timeball.domain.instant import render
from timeball.domain.tenant import TENANT_DELETED, DeletionPhase, TenantDeletion
from timeball.ports.store.maintenance import Lead
from timeball.stores.sql.audit_log.appending import append
from timeball.stores.sql.audit_log.recording import record
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.maintenance.maintenance import check
from timeball.stores.sql.maintenance.owned_tables import FAMILIES, JOBS, Family, OwnedTable
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.rows.values import as_json, plain
from timeball.stores.sql.schema.audit_log import AUDIT_HEADS, AuditHeadRow
from timeball.stores.sql.schema.table import as_tuple
from timeball.stores.sql.schema.tenants import TENANT_DELETIONS, DeletionRow
from timeball.stores.sql.statements import query
from timeball.stores.sql.tenants.tenants import locked_tenant

MARK_AS_DELETING = query("mark_as_deleting")
CLOSE_AUDIT_CHAIN = query("close_audit_chain")
DELETIONS = query("deletions")
LOCK_DELETION = query("lock_deletion")
NOTE_DELETION = query("note_deletion")
STOP_JOBS_OF_TENANT = query("stop_jobs_of_tenant")
OWNED_BY_TENANT = query("owned_by_tenant")
DELETE_PROFILES = query("delete_profiles_of_tenant")
HAS_PROFILES = query("has_profiles")
HAS_DEPARTURES = query("has_departures")
AUDIT_HEAD = query("audit_head")
DROP = tuple(map(query, ("drop_audit_head", "drop_tenant", "drop_deletion")))

PARENTS: Final = 100
"""Maximum number of rows, such as runs, jobs or keys, that one transaction deletes with the rows that belong to
them."""
_RUNS: Final = OwnedTable("runs", ("id",), "tenant")


class TenantDeletions(StorePart):
    async def begin_deletion(self, tenant: str, actor: Actor, address: str) -> TenantDeletion:
        tenant = plain(tenant)

        async def work(tx: Tx) -> TenantDeletion:
            found = await locked_tenant(tx, tenant)
            if found is None:
                raise NotFound("tenant", tenant)
            deletion = TenantDeletion(tenant=tenant, requested_at=self._db.now(), actor=actor, address=plain(address))
            await tx.insert_missing(TENANT_DELETIONS, [as_tuple(_row(deletion))])
            if found.state == "active":
                await tx.execute(MARK_AS_DELETING, tenant=tenant)
                await tx.insert_missing(AUDIT_HEADS, [as_tuple(AuditHeadRow(tenant, 0, NO_HASH))])
                await tx.execute(CLOSE_AUDIT_CHAIN, tenant=tenant)
                before, after = {"state": "active"}, {"state": "deleting"}
                record(tx, "tenant", tenant, before=before, after=after, chain=SYSTEM_CHAIN)
            return await _locked(tx, tenant) or deletion

        return await self._db.write(work)

    async def deletions(self) -> list[TenantDeletion]:
        async def work(tx: Tx) -> list[TenantDeletion]:
            return [_deletion(row) for row in await tx.fetch(DELETIONS)]

        return await self._db.read(work)

    async def stop_jobs(self, lead: Lead, tenant: str, limit: int) -> int:
        async def work(tx: Tx) -> int:
            await check(tx, lead)
            return await tx.execute(STOP_JOBS_OF_TENANT, tenant=tenant, limit=limit)

        return await self._db.write(work)

    async def owned_by(self, tenant: str, ids: Sequence[str]) -> set[str]:
        async def work(tx: Tx) -> set[str]:
            return {each for (each,) in await tx.fetch(OWNED_BY_TENANT, tenant=tenant, b=sorted(set(ids)))}

        return await self._db.read(work, slow=True) if ids else set()

    async def note_deletion(
        self, lead: Lead, tenant: str, phase: DeletionPhase, place: str = "", counts: Mapping[str, int] | None = None
    ) -> None:
        async def work(tx: Tx) -> None:
            await check(tx, lead)
            found = await _locked(tx, tenant)
            if found is None or (found.phase, found.place) == (phase, place):
                return  # this call repeats one whose answer was lost
            await _note(tx, msgspec.structs.replace(found, phase=phase, place=place), counts or {})

        await self._db.write(work)

    async def delete_rows(self, lead: Lead, tenant: str, limit: int) -> int:
        async def work(tx: Tx) -> int:
            await check(tx, lead)
            found = await _locked(tx, tenant)
            if found is None:
                return 0
            counts = await _delete_some(tx, tenant, limit)
            await _note(tx, found, counts)
            return sum(counts.values())

        return await self._db.write(work)

    async def end_deletion(self, lead: Lead, tenant: str) -> bool:
        async def work(tx: Tx) -> bool:
            await check(tx, lead)
            await self._exclude_submits(tx)
            found = await _locked(tx, tenant)
            if found is None:
                return True
            await locked_tenant(tx, tenant)
            if await _has_rows(tx, tenant):
                return False
            ((_, entries, last_hash),) = await tx.fetch(AUDIT_HEAD, chain=tenant)
            for drop in DROP:
                await tx.execute(drop, tenant=tenant)
            receipt = {
                "deleted": found.counts,
                "auditEntries": entries,
                "lastHash": last_hash,
                "requestedAt": render(found.requested_at),
            }
            await _append_receipt(tx, found, receipt)
            return True

        return await self._db.write(work)

    async def _exclude_submits(self, tx: Tx) -> None:
        """Keep out transactions that insert jobs, until this one ends. SQLite has one writer."""


async def _delete_some(tx: Tx, tenant: str, limit: int) -> dict[str, int]:
    """Delete at most about `limit` rows of a tenant, from the first family of tables that has any. Return the numbers
    of deleted rows by table; empty if no rows are left."""
    for family in FAMILIES:
        if counts := await _delete_of_family(tx, family, tenant, limit):
            return counts
    deleted = await tx.execute(DELETE_PROFILES, label=tenant_label(tenant), limit=limit)
    return {"profiles": deleted} if deleted else {}


async def _delete_of_family(tx: Tx, family: Family, tenant: str, limit: int) -> dict[str, int]:
    table = family.table
    if not family.children:
        named = {"table": table.name, "key": ", ".join(table.key), "column": table.column}
        deleted = await tx.execute(query("delete_of_tenant", **named), tenant=tenant, limit=limit)
        return {table.name: deleted} if deleted else {}
    condition = "AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.job_id = t.id)" if family is JOBS else ""
    ids = query("ids_of_tenant", table=table.name, condition=condition)
    parents = [each for (each,) in await tx.fetch(ids, tenant=tenant, limit=min(PARENTS, limit))]
    if not parents:
        return {}
    counts: dict[str, int] = {}
    for child in family.children:
        named = {"table": child.name, "key": ", ".join(child.key), "column": child.column}
        if deleted := await tx.execute(query("delete_children", **named), b=parents, limit=limit):
            counts[child.name] = counts.get(child.name, 0) + deleted
        if deleted >= limit:  # there may be more
            return counts
    counts[table.name] = await tx.execute(query("delete_parents", table=table.name), b=parents)
    return counts


async def _has_rows(tx: Tx, tenant: str) -> bool:
    """Return True if something of the tenant is left, or if days of the history are being removed: their rows may still
    come back."""
    for table in (_RUNS, *(family.table for family in FAMILIES)):
        if await tx.fetch(query("has_rows_of_tenant", table=table.name, column=table.column), tenant=tenant):
            return True
    return bool(await tx.fetch(HAS_PROFILES, label=tenant_label(tenant)) or await tx.fetch(HAS_DEPARTURES))


async def _append_receipt(tx: Tx, deletion: TenantDeletion, receipt: Values) -> None:
    request = AuditedRequest(
        tenant=SYSTEM_CHAIN,
        actor=deletion.actor,
        address=deletion.address,
        action=TENANT_DELETED,
        resource="tenant",
        resource_id=deletion.tenant,
    )
    change = AuditedChange("tenant", deletion.tenant, lambda: (None, receipt), chain=SYSTEM_CHAIN)
    await append(tx, [(request, [change])])


async def _locked(tx: Tx, tenant: str) -> TenantDeletion | None:
    return next(map(_deletion, await tx.fetch(LOCK_DELETION, tenant=tenant)), None)


async def _note(tx: Tx, deletion: TenantDeletion, counts: Mapping[str, int]) -> None:
    added = dict(deletion.counts)
    for kind, count in counts.items():
        added[kind] = added.get(kind, 0) + count
    noted: dict[str, Any] = {"tenant": deletion.tenant, "phase": deletion.phase, "place": deletion.place}
    await tx.execute(NOTE_DELETION, **noted, counts=as_json({kind: n for kind, n in sorted(added.items()) if n}))


def _row(deletion: TenantDeletion) -> DeletionRow:
    actor = deletion.actor
    return DeletionRow(
        tenant=deletion.tenant,
        requested_at=deletion.requested_at,
        actor_kind=plain(actor.kind),
        actor_id=plain(actor.id),
        actor_name=plain(actor.name),
        user_id=plain(actor.user_id),
        address=deletion.address,
        phase=deletion.phase,
        place=deletion.place,
        counts=as_json(deletion.counts),
    )


def _deletion(row: Row) -> TenantDeletion:
    found = DeletionRow(*row)
    return TenantDeletion(
        tenant=found.tenant,
        requested_at=found.requested_at,
        actor=Actor(kind=found.actor_kind, id=found.actor_id, name=found.actor_name, user_id=found.user_id),
        address=found.address,
        phase=msgspec.convert(found.phase, DeletionPhase),
        place=found.place,
        counts=msgspec.json.decode(found.counts, type=dict[str, int]),
    )
