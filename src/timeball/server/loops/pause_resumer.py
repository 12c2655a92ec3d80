"""The loop that resumes a job at the instant at which its pause ends."""

from __future__ import annotations

from functools import partial
from typing import Final

import structlog

from timeball.batch_isolation import in_halves
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job
from timeball.domain.planning.planning_failure import FIRST_RETRY_DELAY, reason_of
from timeball.operation.context import OperationContext
from timeball.operation.jobs.pause import end_pauses
from timeball.ports.wakeups import Topic
from timeball.server.loop import TICK, Loop
from timeball.server.wakeups import LocalWakeups

BATCH: Final = 100
_log = structlog.get_logger()


class PauseResumer(Loop):
    name = "pause_resumer"
    topics = (Topic.PAUSE,)

    def __init__(self, context: OperationContext, wakeups: LocalWakeups) -> None:
        super().__init__(context.clock, wakeups)
        self._context = context
        self._store = context.store
        self._failed: dict[str, Micros] = {}
        """The instant at which a job that could not be resumed is tried again, by job id."""

    async def turn(self) -> Micros:
        upcoming = await self._store.next_resume_at()
        if upcoming is None:
            return TICK
        if (left := upcoming - self._store.now()) > 0:
            return left
        now = self._clock.monotonic()
        self._failed = {job_id: at for job_id, at in self._failed.items() if at > now}
        found = await self._store.pauses_over(BATCH + len(self._failed))
        over = [job for job in found if job.id not in self._failed]
        if not over:
            return TICK
        await in_halves(over, partial(end_pauses, self._context), self._leave)
        return 0

    def _leave(self, job: Job, error: Exception) -> None:
        """Log that a job cannot be resumed, and try it again later. The other jobs of the batch are resumed."""
        _log.error("a job whose pause is over cannot be resumed", job=job.id, error=reason_of(error))
        self._failed[job.id] = self._clock.monotonic() + FIRST_RETRY_DELAY
