"""Hands due runs to the workers that wait for them: all waiting polls in one claim."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import structlog

from timeball.domain.errors import Unavailable
from timeball.domain.instant import MILLISECOND, Micros
from timeball.operation.context import Context
from timeball.ports.store.runs import Claim, Claimed, SlotRequest
from timeball.ports.wakeups import Topic
from timeball.server.loop import TICK, Loop
from timeball.server.wakeups import LocalWakeups
from timeball.server.worker_gateway.gateway import WorkerGateway

AHEAD: Final = 250 * MILLISECOND
"""Slots that are left after all due runs are filled this far ahead of the fire time, as a relative delay."""
LATEST: Final = 150 * MILLISECOND
"""Runs whose time is this far away are left for a claim that takes those that follow them as well: so the fires of a
while share one claim, and each is handed out long enough before its time."""
UNHURRIED: Final = 50 * MILLISECOND
PAUSE: Final = 20 * MILLISECOND
"""How long slots that get free are gathered once all were filled with runs that are at least `UNHURRIED` ahead."""
CLAIM_RETRY_DELAY: Final = 2 * MILLISECOND
"""Before looking again for others, after runs were put aside to wait, or somebody else had his hands on them."""
MAX_RESERVED_WORKERS: Final = 64
"""How many who wait are lent to who submits: what they cannot take is for the next claim, which is for all."""
MAX_ROUNDS: Final = 50
"""Claims in one turn: who watches the loops wants to see them turn."""
AFTER_THE_TURN: Final = 1 << 62
"""Who comes while the loop claims is looked after at the end of that."""

_log = structlog.get_logger()


class Dispatcher(Loop):
    """Also the floor on which who submits finds the workers that wait."""

    name = "dispatcher"
    topics = (Topic.READY,)

    def __init__(self, context: Context, wakeups: LocalWakeups, gateway: WorkerGateway) -> None:
        super().__init__(context.clock, wakeups)
        self._store = context.store
        self._gateway = gateway
        self._calm_until: Micros = 0
        """Nothing has to be claimed before this moment of the steady clock unless a hint says so."""
        self._claiming = asyncio.Lock()
        """One at a time claims for those who wait, and in the order in which they came: this loop, or who submits."""
        gateway.listen(self._demanded)

    async def turn(self) -> Micros:
        self._calm_until = AFTER_THE_TURN
        try:
            return await self._claim()
        finally:
            if self._calm_until == AFTER_THE_TURN:
                self._calm_until = 0

    async def _claim(self) -> Micros:
        """Claim for those who wait; how long there is nothing to do then."""
        if not self._gateway.wants():
            return TICK
        # Polls that come together are answered together, and what comes with them to be settled shares their commit.
        await asyncio.sleep(0)
        async with self._claiming:
            wants = self._gateway.wants()
            if not wants:
                return TICK
            claimed = await self._claim_for(wants)
        for _ in range(MAX_ROUNDS - 1):
            if not claimed.more or claimed.again:
                break
            async with self._claiming:
                # Also for who has yet to poll again: the next ones are claimed while these execute.
                ahead = self._gateway.wants_ahead()
                if not ahead:
                    break
                wants, claimed = ahead, await self._claim_for(ahead)
        full = claimed.more and not claimed.again
        if full or len(claimed.claims) >= sum(want.slots for want in wants):
            if min(claim.eligible_at for claim in claimed.claims) >= claimed.now + UNHURRIED:
                return self._stay_calm(PAUSE)
            return 0 if self._gateway.has_demand else TICK
        if claimed.again:
            self._wakeups.wake(Topic.GATE)
            return CLAIM_RETRY_DELAY
        looked_until = claimed.now + AHEAD
        upcoming = await self._store.next_eligible_at(0 if claimed.left else looked_until, choosy_after=looked_until)
        served = {want.session for want in wants}
        if any(want.session not in served for want in self._gateway.wants()):
            return 0
        return self._stay_calm(
            TICK if upcoming is None else max(CLAIM_RETRY_DELAY, upcoming - LATEST - self._store.now())
        )

    async def _claim_for(self, wants: Sequence[SlotRequest]) -> Claimed:
        try:
            claimed = await self._store.claim(wants, AHEAD)
        except Unavailable:
            self._gateway.mark_uncertain(wants)
            raise
        await self._gateway.deliver(claimed.claims)
        return claimed

    def _stay_calm(self, rest: Micros) -> Micros:
        self._calm_until = self._clock.monotonic() + min(rest, TICK)
        return rest

    def _demanded(self) -> None:
        """Somebody waits: look for runs, unless it is known that there are none, or will be in a moment."""
        if self._clock.monotonic() >= self._calm_until:
            self.nudge()

    @asynccontextmanager
    async def reserve(self) -> AsyncIterator[Sequence[SlotRequest]]:
        if not self._gateway.wants_soon(1):
            yield ()
            return
        async with self._claiming:
            yield self._gateway.wants_soon(MAX_RESERVED_WORKERS)

    def mark_uncertain(self, wants: Sequence[SlotRequest]) -> None:
        self._gateway.mark_uncertain(wants)

    async def deliver(self, claims: Sequence[Claim]) -> None:
        """Whatever goes wrong is not the business of who submitted: what does not arrive comes back by itself."""
        try:
            await self._gateway.deliver(claims)
        except Exception as error:
            _log.warning("runs could not be handed out and will come back", error=str(error) or type(error).__name__)
