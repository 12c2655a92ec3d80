"""Offloads large results to object storage: the object is written before the row that refers to it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import structs

from timeball.operation.storage.large_values import LargeValueStore, is_large
from timeball.ports.store.runs import Settlement
from timeball.ports.store.store import Store
from timeball.ports.worker_protocol import Ended


async def offload_results(
    store: Store, large_value_store: LargeValueStore, settlements: Sequence[Settlement], ended: Sequence[Ended]
) -> list[Settlement]:
    """Return the settlements of one session, with references in place of large results and of results for which the job
    has a location.

    Objects are written only for attempts that the session holds, so a forged or stale report writes none. The store
    checks the fencing token again when it settles. The job decides where a result is written, not its worker.
    """

    async def offload(settlement: Settlement, end: Ended) -> Settlement:
        if not _is_large(end) or _key(settlement) not in held:
            return settlement
        run_id = settlement.run_id
        found = (await store.specs([run_id])).get(run_id)
        location = None if found is None else found.spec.result_location
        outcome = await large_value_store.offload_result(run_id, settlement.token, settlement.outcome, location)
        return structs.replace(settlement, outcome=outcome)

    pairs = list(zip(settlements, ended, strict=True))
    wanted = [_key(settlement) for settlement, end in pairs if _is_large(end)]
    if not wanted:
        return list(settlements)
    held = await store.held(settlements[0].session, wanted)
    return await asyncio.gather(*(offload(settlement, end) for settlement, end in pairs))


def _is_large(ended: Ended) -> bool:
    return ended.placed or is_large(ended.outcome)


def _key(settlement: Settlement) -> tuple[str, int, int]:
    return settlement.run_id, settlement.attempt, settlement.token
