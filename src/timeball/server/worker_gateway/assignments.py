"""Makes the assignments in the answer to a poll from the claimed runs."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, Raw

from timeball.domain.dispatch.slot_pools import PoolRoom
from timeball.domain.instant import Micros
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.ports.store.runs import Claim
from timeball.ports.worker_protocol import Assignment


def room_without(room: PoolRoom, claims: Sequence[Claim]) -> PoolRoom:
    """Return the free slots that are left in each pool of a worker after it got these runs."""
    left = room.copy()
    for claim in claims:
        if claim.pool is not None:
            left.take(claim.pool, claim.slots)
    return left


def assignment_of(claim: Claim, now: Micros) -> Assignment:
    eligible_at = claim.eligible_at
    return Assignment(
        run_id=claim.run_id,
        job_id=claim.job_id,
        attempt=claim.attempt,
        token=claim.token,
        delay=eligible_at - now if eligible_at > now else 0,
        fire_time=claim.fire_time,
        serial=claim.serial,
        turn=claim.turn,
        spec=Raw(claim.spec),
        task=UNSET if claim.task is None else Raw(claim.task),
        # msgspec omits a default only if it is this very object.
        tenant=DEFAULT_TENANT if claim.tenant == DEFAULT_TENANT else claim.tenant,
        traceparent=claim.traceparent,
    )
