"""Counts the starts of runs for lateness objectives: from the ledger, and from live runs that wait and are late
already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from timeball.domain.instant import Micros
from timeball.ports.store.overview import StartCounts
from timeball.stores.sql.day_ranges import day_range
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.overview.lanes import NEWEST_WITH_TAG
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.statements import query

COUNT_STARTS = query("count_starts")
OVERDUE_STARTS = query("overdue_starts")


class StartReads(StorePart):
    async def jobs_with_tag(self, tenant: str, tag: str, limit: int) -> list[str]:
        async def work(tx: Tx) -> list[str]:
            return [job_id for (job_id,) in await tx.fetch(NEWEST_WITH_TAG, tenant=tenant, tag=tag, limit=limit)]

        return await self._db.read(work, slow=True, may_lag=True)

    async def count_starts(
        self, within: Mapping[str, Micros], edges: Sequence[Micros], limit: int
    ) -> dict[str, list[StartCounts]]:
        ranges = [
            (job_id, place, since, until, bound)
            for job_id, bound in within.items()
            for place, (since, until) in enumerate(pairwise(edges))
        ]
        late_before = [(job_id, edges[-1] - bound) for job_id, bound in within.items()]

        async def work(tx: Tx) -> dict[str, list[StartCounts]]:
            made = day_range(self._db.now(), fires_from=max(0, edges[0]))._asdict()
            found = {job_id: [StartCounts(0, 0)] * (len(edges) - 1) for job_id in within}
            for job_id, place, count, late, rows in await tx.fetch(COUNT_STARTS, b=ranges, limit=limit, **made):
                found[job_id][place] = StartCounts(int(count), int(late), capped=rows >= limit)
            for job_id, overdue in await tx.fetch(OVERDUE_STARTS, b=late_before, limit=limit):
                last = found[job_id][-1]
                found[job_id][-1] = StartCounts(last.count + overdue, last.late + overdue, capped=last.capped)
            return found

        return await self._db.read(work, slow=True, may_lag=True) if within else {}
