"""A server's loops and desk, started and stopped together."""

from __future__ import annotations

from dataclasses import replace

from timeball.domain import retention
from timeball.domain.instant import Micros
from timeball.operation.context import Context
from timeball.operation.runs.settle import Settle
from timeball.operation.storage.large_values import Depot
from timeball.operation.storage.search_archive import Archive
from timeball.ports.clock import Clock, Dice
from timeball.ports.store.maintenance import Archivist
from timeball.ports.store.store import Store
from timeball.server.loop import Loop
from timeball.server.loops.backfiller import Backfiller
from timeball.server.loops.cancel_sender import Canceller
from timeball.server.loops.deadline_expirer import Expirer
from timeball.server.loops.dispatcher import Dispatcher
from timeball.server.loops.follow_trigger import Listener
from timeball.server.loops.gate_opener import Gatekeeper
from timeball.server.loops.lease_rescuer import Rescuer
from timeball.server.loops.maintenance import Keeper
from timeball.server.loops.pause_resumer import Waker
from timeball.server.loops.planner import Planner
from timeball.server.loops.preemptor import Preemptor
from timeball.server.loops.run_watcher import RunWatcher
from timeball.server.loops.workflow_advancer import Weaver
from timeball.server.wakeups import LocalHints
from timeball.server.worker_gateway.gateway import Desk


class Server:
    """Any number of them may work on one store; all are active, none is special."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        dice: Dice,
        *,
        keep_for: Micros | None = retention.DEFAULT,
        archivist: Archivist | None = None,
        archive: Archive | None = None,
        depot: Depot | None = None,
    ) -> None:
        """`keep_for` is how long history is kept, None: for ever; with an archivist, it is archived before it goes, and
        can be read in the `archive`. Large values go to the `depot`, if there is one."""
        hints = LocalHints(store.shout)
        store.listen(hints.hear)
        context = Context(store, clock, dice, hints, archive=archive, depot=depot or Depot())
        settle = Settle(context)
        self.desk = Desk(context, settle)
        dispatcher = Dispatcher(context, hints, self.desk)
        self.context = replace(context, floor=dispatcher)
        self.loops: tuple[Loop, ...] = (
            Planner(self.context, hints),
            dispatcher,
            Weaver(self.context, hints),
            Gatekeeper(self.context, hints),
            Expirer(self.context, hints),
            Canceller(self.context, hints, self.desk),
            Preemptor(self.context, hints, self.desk),
            Rescuer(self.context, hints, settle),
            Waker(self.context, hints),
            Backfiller(self.context, hints),
            Listener(self.context, hints),
            RunWatcher(self.context, hints),
            Keeper(self.context, hints, keep_for=keep_for, archivist=archivist),
        )

    def start(self) -> None:
        for loop in self.loops:
            loop.start()

    async def stop(self) -> None:
        self.desk.close()
        for loop in reversed(self.loops):
            await loop.stop()

    def stalled(self) -> list[str]:
        """Names of the required loops without a recent success."""
        return [loop.name for loop in self.loops if loop.is_required and loop.problem()]
