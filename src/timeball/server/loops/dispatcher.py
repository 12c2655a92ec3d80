"""The dispatcher: the loop that claims runs that are due, or due soon, for workers with a pending poll, or with one
that is expected soon. One claim covers all pending polls with free slots."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import structlog

from timeball.domain.errors import Unavailable
from timeball.domain.instant import MILLISECOND, Micros
from timeball.operation.context import OperationContext
from timeball.ports.store.runs import Claim, Claimed, SlotRequest
from timeball.ports.wakeups import Topic
from timeball.server.loop import TICK, Loop
from timeball.server.wakeups import LocalWakeups
from timeball.server.worker_gateway.gateway import WorkerGateway

AHEAD: Final = 250 * MILLISECOND
"""If slots are left after all due runs were claimed, the dispatcher also claims runs that are due within this time. The
worker gets the remaining time as a relative delay.
"""
LATEST: Final = 150 * MILLISECOND
"""The dispatcher waits until an upcoming run is due within this time before it claims the run. By then the runs after
it are due within `AHEAD` as well: the fires of a short period share one claim, and each is still assigned early enough.
"""
FAR_AHEAD: Final = 50 * MILLISECOND
PAUSE: Final = 20 * MILLISECOND
"""Microseconds that the dispatcher waits after it filled all slots with runs that are due in `FAR_AHEAD` or later, so
that the next claim covers several slots that became free."""
CLAIM_RETRY_DELAY: Final = 2 * MILLISECOND
"""Microseconds before the next claim, after runs had to wait for a gate or were locked by another server."""
MAX_RESERVED_WORKERS: Final = 64
"""Maximum number of workers with a pending poll that are offered to one submit batch, and of workers whose next poll is
expected soon. The rest of the batch goes through the normal claim."""
MAX_ROUNDS: Final = 50
"""Maximum number of claims in one turn. A turn has to end for the loop to count as healthy."""
AFTER_THE_TURN: Final = 1 << 62
"""Value of `_polls_ignored_until` during a turn: polls that arrive while the loop claims are handled at the end of the
turn."""

_log = structlog.get_logger()


class Dispatcher(Loop):
    """The loop that claims. It also implements `ports.idle_workers.IdleWorkers`: a submit reserves idle workers here
    and delivers runs to them.
    """

    name = "dispatcher"
    serves_requests = True
    topics = (Topic.READY,)

    def __init__(self, context: OperationContext, wakeups: LocalWakeups, gateway: WorkerGateway) -> None:
        super().__init__(context.clock, wakeups)
        self._store = context.store
        self._gateway = gateway
        self._sizes = context.metrics.claims
        self._polls_ignored_until: Micros = 0
        """A new poll does not start a turn before this instant of the monotonic clock, because no run has to be claimed
        earlier. A wakeup does.
        """
        self._crowded = False
        """True if runs wait for a free slot of a pool. A worker that has more free slots then starts a turn."""
        self._has_grown = False
        """True if a worker has had more free slots since the last claim began."""
        self._claiming = asyncio.Lock()
        """Held by the one task that claims for pending polls: this loop or a submit, in order of arrival."""
        gateway.listen(self._demanded)

    async def turn(self) -> Micros:
        self._polls_ignored_until = AFTER_THE_TURN
        try:
            return await self._claim()
        finally:
            if self._polls_ignored_until == AFTER_THE_TURN:
                self._polls_ignored_until = 0

    async def _claim(self) -> Micros:
        """Claim runs for the pending polls. Return the number of microseconds until the next claim, unless a poll or a
        wakeup starts a turn earlier."""
        if not self._gateway.wants():
            return TICK
        # Let the event loop turn once: polls that arrive together share one claim, and settlements that arrive with
        # them share its commit.
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
                # Also claim for workers that are expected to poll again soon: their next runs are claimed while the
                # first ones execute.
                ahead = self._gateway.wants_ahead()
                if not ahead:
                    break
                wants, claimed = ahead, await self._claim_for(ahead)
        full = claimed.more and not claimed.again
        if full or len(claimed.claims) >= sum(want.slots for want in wants):
            if min(claim.eligible_at for claim in claimed.claims) >= claimed.now + FAR_AHEAD:
                return self._ignore_polls(PAUSE)
            return 0 if self._gateway.has_demand else TICK
        if claimed.again:
            self._wakeups.wake(Topic.GATE)
            return CLAIM_RETRY_DELAY
        looked_until = claimed.now + AHEAD
        # Runs that the quota of their tenant keeps waiting are due already. A claim for them is of no use before the
        # next poll, which follows the end of a run.
        has_spare_slots = claimed.left > 0 and not claimed.short
        upcoming = await self._store.next_eligible_at(
            0 if has_spare_slots else looked_until, constrained_after=looked_until
        )
        served = {want.session for want in wants}
        if any(want.session not in served for want in self._gateway.wants()):
            return 0
        delay = TICK if upcoming is None else max(CLAIM_RETRY_DELAY, upcoming - LATEST - self._store.now())
        if claimed.short:  # the poll after the end of a run starts the next turn
            return delay
        self._crowded = claimed.crowded
        if self._crowded and self._has_grown:
            return 0
        return self._ignore_polls(delay)

    async def _claim_for(self, wants: Sequence[SlotRequest]) -> Claimed:
        self._crowded = self._has_grown = False
        try:
            claimed = await self._store.claim(wants, AHEAD)
        except Unavailable:
            self._gateway.mark_uncertain(wants)
            raise
        if claimed.claims:
            self._sizes.observe(len(claimed.claims))
        await self._gateway.deliver(claimed.claims)
        return claimed

    def _ignore_polls(self, delay: Micros) -> Micros:
        self._polls_ignored_until = self._clock.monotonic() + min(delay, TICK)
        return delay

    def _demanded(self, has_grown: bool) -> None:
        """Called when a worker with free slots polls: start a turn. No turn starts during another one, nor before
        `_polls_ignored_until`, because the last claim left no run that is due earlier. Exception: runs wait for a free
        slot of a pool, and the worker has more free slots than before (`has_grown`)."""
        self._has_grown = self._has_grown or has_grown
        if (has_grown and self._crowded) or self._clock.monotonic() >= self._polls_ignored_until:
            self.wake()

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
        """Send the claimed runs to their workers. Errors are logged and not raised: the submit has succeeded, and runs
        that do not reach their worker return to the queue.
        """
        if claims:
            self._sizes.observe(len(claims))
        try:
            await self._gateway.deliver(claims)
        except Exception as error:
            _log.warning(
                "claimed runs could not be delivered; they return to the queue",
                error=str(error) or type(error).__name__,
            )
