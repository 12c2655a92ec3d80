"""Recounts of the bytes that are stored for tenants with a quota of them: transactions only add to the count, and a
recount takes off what was deleted."""

from __future__ import annotations

from typing import Final

import msgspec

from timeball.domain.job.large_values import size_of_parameters
from timeball.ports.store.maintenance import Lead
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.maintenance.maintenance import check
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.rows.values import plain
from timeball.stores.sql.statements import query, text
from timeball.stores.sql.tenants.quotas import add_bytes, lock_use

_IS_OF_TENANT: Final = text("is_run_of_tenant")
STORED_BYTES = query(
    "stored_bytes",
    of_edited=_IS_OF_TENANT.replace("{run_id}", "e.run_id"),
    of_offloaded=_IS_OF_TENANT.replace("{run_id}", "o.run_id"),
)


class _Reference(msgspec.Struct):
    """The key of the object with the parameters of a spec; empty if the spec contains them. The other fields are not
    decoded."""

    parameters_at: str = msgspec.field(default="", name="parametersAt")


_decode_reference = msgspec.json.Decoder(_Reference).decode


class StoredBytes(StorePart):
    async def recount_stored_bytes(self, lead: Lead, tenant_id: str) -> int:
        tenant = plain(tenant_id)

        async def count(tx: Tx) -> tuple[int, int]:
            rows = await tx.fetch(STORED_BYTES, tenant=tenant)
            counted = sum(size for part, size, _ in rows if part == "counted")
            objects = {_decode_reference(spec).parameters_at for part, _, spec in rows if part == "parameters"}
            return counted, sum(size or 0 for part, size, _ in rows if part != "counted") + sum(
                map(size_of_parameters, objects)
            )

        async def correct(tx: Tx) -> None:
            await check(tx, lead)
            await lock_use(tx, [tenant])
            await add_bytes(tx, {tenant: found - counted})

        counted, found = await self._db.read(count, slow=True)
        if found != counted:
            await self._db.write(correct)
        return found
