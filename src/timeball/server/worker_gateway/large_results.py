"""Offloads large results to object storage: the object is written before the row that refers to it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import structs

from timeball.operation.storage.large_values import LargeValueStore, is_large, result_size
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

    async def offload(settlement: Settlement) -> Settlement:
        run_id = settlement.run_id
        found = (await store.specs([run_id])).get(run_id)
        location = None if found is None else found.spec.result_location
        outcome = await large_value_store.offload_result(run_id, settlement.token, settlement.outcome, location)
        if outcome is settlement.outcome:
            return settlement
        return structs.replace(settlement, outcome=outcome, offloaded=result_size(settlement.outcome))

    results = list(settlements)
    large = [at for at, end in enumerate(ended) if end.placed or is_large(end.outcome)]
    if large:
        held = await store.held(results[0].session, [_key(results[at]) for at in large])
        places = [at for at in large if _key(results[at]) in held]
        offloaded = await asyncio.gather(*(offload(results[at]) for at in places))
        for at, settlement in zip(places, offloaded, strict=True):
            results[at] = settlement
    return results


def _key(settlement: Settlement) -> tuple[str, int, int]:
    return settlement.run_id, settlement.attempt, settlement.token
