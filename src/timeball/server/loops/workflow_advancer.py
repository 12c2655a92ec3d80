"""The loop that advances workflow runs: it starts workflow runs that are due, creates the runs of tasks whose
dependencies have ended, and ends workflow runs whose tasks have all ended.
"""

from __future__ import annotations

import contextlib
from typing import Final

from timeball.domain.errors import Unavailable
from timeball.domain.instant import MILLISECOND, Micros
from timeball.operation.context import OperationContext
from timeball.ports.wakeups import Topic
from timeball.server.loop import TICK, Loop
from timeball.server.wakeups import LocalWakeups

BATCH: Final = 500
"""Maximum number of tasks that one transaction checks."""
MAX_FETCHED: Final = 20
WORKFLOW_RETRY_DELAY: Final = 5 * MILLISECOND
"""Microseconds between two turns that advanced nothing, because another server holds the locks."""


class WorkflowAdvancer(Loop):
    name = "workflow_advancer"
    topics = (Topic.WORKFLOW,)

    def __init__(self, context: OperationContext, wakeups: LocalWakeups) -> None:
        super().__init__(context.clock, wakeups)
        self._store = context.store
        self._large_value_store = context.large_value_store
        self._large: dict[str, bytes | None] = {}
        """Large results that the next call of `advance_workflows` needs and that are not in the store, by object key.
        """
        self._after = ""

    async def turn(self) -> Micros:
        upcoming = await self._store.next_workflow_at()
        if upcoming is None:
            return TICK
        if (left := upcoming - self._store.now()) > 0:
            return left
        done = await self._store.advance_workflows(BATCH, self._large, self._after)
        self._large = await self._fetched(done.wants)
        # Tasks that cannot advance now must not block the tasks behind them: the next turn continues after the last
        # one.
        stuck = not done.anything and not self._large
        self._after = done.last if stuck else ""
        if done.made or done.ended:
            self._wakeups.wake(Topic.READY)
        if done.stopped:
            self._wakeups.wake(Topic.CANCEL)
        if done.ended:
            self._wakeups.wake(Topic.ENDED)
            self._wakeups.wake(Topic.BACKFILL)
            self._wakeups.wake(Topic.FOLLOW)
        if not stuck or done.last:
            return WORKFLOW_RETRY_DELAY if stuck else 0
        return TICK

    async def _fetched(self, keys: tuple[str, ...]) -> dict[str, bytes | None]:
        """Return the large results that tasks need, without those that cannot be read now."""
        found: dict[str, bytes | None] = {}
        for key in keys[:MAX_FETCHED]:
            with contextlib.suppress(Unavailable):
                found[key] = await self._large_value_store.content(key)
        return found
