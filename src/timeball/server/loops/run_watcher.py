"""The loop that finds changes that other servers made to runs which clients of this server watch, with one read for all
of these runs."""

from __future__ import annotations

from typing import Final

from timeball.domain.instant import MILLISECOND, Micros
from timeball.operation.context import OperationContext
from timeball.ports.store.runs import RunMark
from timeball.server.loop import TICK, Loop
from timeball.server.wakeups import LocalWakeups

WATCH_INTERVAL: Final = 500 * MILLISECOND
"""Microseconds between two reads. Output that a worker reports to another server reaches clients of this one about this
late."""


class RunWatcher(Loop):
    name = "run_watcher"
    serves_requests = True
    is_required = False  # clients that watch a run also read the store themselves now and then

    def __init__(self, context: OperationContext, wakeups: LocalWakeups) -> None:
        super().__init__(context.clock, wakeups)
        self._store = context.store
        self._events = context.run_events
        self._marks: dict[str, RunMark | None] = {}

    async def turn(self) -> Micros:
        followed = self._events.run_ids
        if not followed:
            self._marks = {}
            return TICK
        found = await self._store.run_marks(followed)
        marks = {run_id: found.get(run_id) for run_id in followed}
        # A run may have changed between the first read of its watcher and the first mark, so a new run counts as
        # changed.
        known = self._marks
        self._events.changed([run_id for run_id, mark in marks.items() if run_id not in known or known[run_id] != mark])
        self._marks = marks
        return WATCH_INTERVAL
