"""Deletes tenants with everything they own, step by step.

A deletion has three phases. First its jobs are cancelled, and its live runs: running attempts are stopped by their
workers, or end with their leases. Then its objects and archived runs are deleted, and then its rows. Each step is
bounded, and a server that is killed between any two lines leaves a deletion that the next server continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from timeball.domain.instant import MILLISECOND, SECOND
from timeball.domain.run.status import LIVE
from timeball.domain.tenant import TenantDeletion
from timeball.operation.context import OperationContext
from timeball.operation.jobs.job_result import JobResult
from timeball.operation.runs.cancel import CANCELLED_AT_ONCE, cancel_jobs, cancel_runs
from timeball.operation.storage.erase import Eraser
from timeball.ports.store.jobs import JobFilter
from timeball.ports.store.maintenance import Lead, Occupied
from timeball.ports.store.queries import RunFilter

STEP_DELAY: Final = 20 * MILLISECOND
"""Microseconds between two steps, so that other transactions get their turn."""
WAIT: Final = SECOND
"""Microseconds before a deletion continues that waits for the end of runs, or for locks."""
JOBS_AT_ONCE: Final = 100
ROWS_AT_ONCE: Final = 500
_STOPPABLE: Final = frozenset({"scheduled", "paused"})
_log = structlog.get_logger()


class TenantDeleter:
    """Continues the deletions that were requested. Only the server that holds the maintenance lease does this."""

    def __init__(self, context: OperationContext) -> None:
        self._context = context
        self._store = context.store
        archive = None if context.archive is None else context.archive.objects
        self._eraser = Eraser(context.store, context.large_value_store, archive)
        self._folders: dict[str, list[str]] = {}
        """The folders that a deletion has not looked at, by tenant."""

    async def run(self, lead: Lead) -> None:
        """Return when all tenants are deleted whose deletion was requested."""
        self._folders = {}
        while deletions := await self._store.deletions():
            steps = [await self.step(lead, each) for each in deletions]
            await self._context.clock.sleep(STEP_DELAY if any(steps) else WAIT)

    async def step(self, lead: Lead, deletion: TenantDeletion) -> bool:
        """Do one step. Return False if the deletion has to wait before the next one."""
        match deletion.phase:
            case "runs":
                if (is_over := await self._end_runs(lead, deletion.tenant)) is not None:
                    return is_over
                await self._store.note_deletion(lead, deletion.tenant, "objects")
                return True
            case "objects":
                return await self._delete_objects(lead, deletion)
            case "rows":
                return await self._delete_rows(lead, deletion.tenant)

    async def _end_runs(self, lead: Lead, tenant: str) -> bool | None:
        """Cancel some jobs and live runs. Return None if all have ended, and False if some end soon."""
        jobs = await self._store.match_jobs(JobFilter(tenant=tenant, status=_STOPPABLE), None, JOBS_AT_ONCE)
        if jobs.items:
            results = await cancel_jobs(self._context, tenant, jobs.items)
            if not _refused(results):
                return True
        if await self._store.stop_jobs(lead, tenant, ROWS_AT_ONCE):
            return True
        runs = await self._store.match_runs(RunFilter(tenant=tenant, status=frozenset(LIVE)), None, CANCELLED_AT_ONCE)
        if not runs:
            return None
        await cancel_runs(self._context, runs)
        return False

    async def _delete_objects(self, lead: Lead, deletion: TenantDeletion) -> bool:
        """Delete the objects in one folder. They are counted before, in the store, and only once: after a crash, the
        deletion continues with the folder that was counted last, without counting it again."""
        tenant = deletion.tenant
        if tenant not in self._folders:
            found = await self._store.tenant(tenant)
            folders = await self._eraser.folders(0 if found is None else found.created_at)
            self._folders[tenant] = [each for each in folders if each >= deletion.place][::-1]
        if not self._folders[tenant]:
            del self._folders[tenant]
            await self._store.note_deletion(lead, tenant, "rows")
            return True
        folder = self._folders[tenant].pop()
        erasure = await self._eraser.of_folder(folder, tenant)
        if erasure.keys:
            await self._store.note_deletion(lead, tenant, "objects", folder, erasure.counts)
            await erasure.delete()
        return True

    async def _delete_rows(self, lead: Lead, tenant: str) -> bool:
        if (is_over := await self._end_runs(lead, tenant)) is not None:
            return is_over
        if await self._store.delete_rows(lead, tenant, ROWS_AT_ONCE):
            return True
        try:
            is_over = await self._store.end_deletion(lead, tenant)
        except Occupied:
            return False
        if is_over:
            _log.info("a tenant was deleted", tenant=tenant)
        return is_over


def _refused(results: Sequence[JobResult]) -> bool:
    return any(result.error is not None for result in results)
