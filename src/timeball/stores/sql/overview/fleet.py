"""The present state of the whole fleet, of all tenants, for metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from timeball.domain.dispatch.placement import queue_name, tenant_of
from timeball.domain.dispatch.priority import LEVELS
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.domain.workflow.definition import WORKFLOW_PROFILE
from timeball.ports.store.overview import MAX_COUNTED, FleetState, QueueDepth
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.overview.present import LEASED_SLOTS, RUNNING_RUNS
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.statements import query

DUE_BY_PRIORITY = query("due_by_priority")
DUE_PROFILES = query("due_profiles")
DUE_BY_PROFILE = query("due_by_profile")
DEAD_BY_TENANT = query("dead_by_tenant")

MAX_PROFILES: Final = 200
"""Maximum number of placement profiles whose runs are counted."""


class FleetReads(StorePart):
    async def fleet_state(self) -> FleetState:
        async def work(tx: Tx) -> FleetState:
            plain = await tx.fetch(DUE_BY_PRIORITY, b=list(LEVELS), limit=MAX_COUNTED)
            profiles = [each for (each,) in await tx.fetch(DUE_PROFILES, limit=MAX_PROFILES)]
            named = [each for each in profiles if each != WORKFLOW_PROFILE]
            constrained = await tx.fetch(DUE_BY_PROFILE, b=named, limit=MAX_COUNTED) if named else []
            running = await tx.fetch(RUNNING_RUNS, tenant="", limit=MAX_COUNTED)
            leased = await tx.fetch(LEASED_SLOTS)
            return FleetState(
                now=self._db.now(),
                queues=_queues(plain, constrained),
                running=sum(count for _, is_workflow, _, count in running if not is_workflow),
                dead_letters=dict(await tx.fetch(DEAD_BY_TENANT, limit=MAX_COUNTED)),
                workers=sum(workers for workers, *_ in leased),
                slots=int(sum(slots for _, slots, *_ in leased)),
            )

        return await self._db.read(work, slow=True, may_lag=True)


def _queues(plain: Iterable[Row], constrained: Iterable[Row]) -> list[QueueDepth]:
    """Return the depth of each queue. Profiles with the same labels are one queue."""
    found = {
        (DEFAULT_TENANT, queue_name(None), priority): (count, oldest) for priority, count, oldest in plain if count
    }
    for profile, count, oldest in constrained:
        if not count:  # the runs were claimed since the profiles were read
            continue
        key = (tenant_of(profile), queue_name(profile), int(profile.partition("|")[0]))
        others, oldest_other = found.get(key, (0, oldest))
        found[key] = (others + count, min(oldest, oldest_other))
    return [QueueDepth(*key, depth, oldest) for key, (depth, oldest) in sorted(found.items())]
