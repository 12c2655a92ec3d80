"""Hands due runs to the workers that wait for them: all waiting polls in one claim."""

from __future__ import annotations

from typing import Final

from timeball.domain.instant import MILLISECOND, Micros
from timeball.operation.context import Context
from timeball.ports.hints import Topic
from timeball.service.desk import Desk
from timeball.service.hints import LocalHints
from timeball.service.loop import TICK, Loop

AHEAD: Final = 250 * MILLISECOND
"""Slots that are left after all due runs are filled this far ahead of the fire time, as a relative delay."""
BREATH: Final = 2 * MILLISECOND
"""Before looking again for others, after runs were put aside to wait, or somebody else had his hands on them."""


class Dispatcher(Loop):
    name = "dispatcher"
    topics = (Topic.READY,)

    def __init__(self, context: Context, hints: LocalHints, desk: Desk) -> None:
        super().__init__(context.clock, hints)
        self._store = context.store
        self._desk = desk
        desk.on_demand = self.nudge

    async def turn(self) -> Micros:
        wants = self._desk.wants()
        if not wants:
            return TICK
        claimed = await self._store.claim(wants, AHEAD)
        await self._desk.hand_out(claimed.claims)
        if len(claimed.claims) >= sum(want.slots for want in wants):
            return 0 if self._desk.has_demand else TICK
        if claimed.again:
            self._hints.give(Topic.GATE)
            return BREATH
        looked_until = claimed.now + AHEAD
        upcoming = await self._store.next_eligible_at(0 if claimed.left else looked_until, choosy_after=looked_until)
        return TICK if upcoming is None else max(BREATH, upcoming - AHEAD - self._store.now())
