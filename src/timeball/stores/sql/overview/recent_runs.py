"""The newest runs of the jobs on a page."""

from __future__ import annotations

from collections.abc import Sequence

from timeball.domain.run.run import Run
from timeball.stores.sql.day_ranges import day_range
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.reading.run_pages import by_id, place_of
from timeball.stores.sql.statements import query

RECENT_FINISHED = query("recent_finished")
RECENT_LIVE = query("recent_live")


class RecentRuns(StorePart):
    async def recent_runs(self, job_ids: Sequence[str], limit: int) -> dict[str, list[Run]]:
        async def work(tx: Tx) -> dict[str, list[Run]]:
            now = self._db.now()
            oldest = min(job_ids)  # no run is older than its job
            alive = await tx.fetch(RECENT_LIVE, b=list(job_ids), limit=limit)
            made = day_range(now, job_id=oldest)._asdict()
            done = await tx.fetch(RECENT_FINISHED, b=list(job_ids), limit=limit, **made)
            found: dict[str, list[Run]] = {job_id: [] for job_id in job_ids}
            for run in sorted(by_id(alive, done, now).values(), key=place_of, reverse=True):
                if len(found[run.job_id]) < limit:
                    found[run.job_id].append(run)
            return found

        return await self._db.read(work, slow=True, may_lag=True) if job_ids else {}
