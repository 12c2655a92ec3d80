"""A server: its background loops and its worker gateway, started and stopped together."""

from __future__ import annotations

from dataclasses import replace

from timeball.domain import retention
from timeball.domain.instant import Micros
from timeball.operation.context import OperationContext
from timeball.operation.runs.settle import Settle
from timeball.operation.storage.large_values import LargeValueStore
from timeball.operation.storage.search_archive import Archive
from timeball.ports.clock import Clock, Rng
from timeball.ports.store.maintenance import Archiver
from timeball.ports.store.store import Store
from timeball.ports.telemetry.tracing import Tracing
from timeball.server.loop import Loop
from timeball.server.loops.backfiller import Backfiller
from timeball.server.loops.cancel_sender import CancelSender
from timeball.server.loops.credential_use_writer import CredentialUseWriter
from timeball.server.loops.deadline_expirer import DeadlineExpirer
from timeball.server.loops.dispatcher import Dispatcher
from timeball.server.loops.event_publisher import EventPublisher
from timeball.server.loops.follow_trigger import FollowTrigger
from timeball.server.loops.gate_opener import GateOpener
from timeball.server.loops.lease_rescuer import LeaseRescuer
from timeball.server.loops.maintenance import MaintenanceLoop
from timeball.server.loops.pause_resumer import PauseResumer
from timeball.server.loops.planner import Planner
from timeball.server.loops.preemptor import Preemptor
from timeball.server.loops.run_watcher import RunWatcher
from timeball.server.loops.statistics_writer import StatisticsWriter
from timeball.server.loops.tenant_limit_reader import TenantLimitReader
from timeball.server.loops.workflow_advancer import WorkflowAdvancer
from timeball.server.wakeups import LocalWakeups
from timeball.server.worker_gateway.gateway import WorkerGateway


class Server:
    """Any number of servers may use one store. All are active and equal."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        rng: Rng,
        *,
        keep_for: Micros | None = retention.DEFAULT,
        archiver: Archiver | None = None,
        archive: Archive | None = None,
        large_value_store: LargeValueStore | None = None,
        with_loops: bool = True,
        tracing: Tracing | None = None,
    ) -> None:
        """`keep_for` is the time for which history is kept; None keeps all. With an `archiver`, runs are archived
        before they are deleted, and can be read through `archive`. Large values go to `large_value_store`, if there is
        one, and spans to `tracing`. Without `with_loops`, only loops run that this server needs to answer its clients
        and workers."""
        wakeups = LocalWakeups(store.wake_all)
        store.listen(wakeups.deliver)
        context = OperationContext(
            store,
            clock,
            rng,
            wakeups,
            archive=archive,
            large_value_store=large_value_store or LargeValueStore(),
            tracing=tracing,
        )
        settle = Settle(context)
        self.gateway = WorkerGateway(context, settle)
        dispatcher = Dispatcher(context, wakeups, self.gateway)
        self.context = replace(context, idle_workers=dispatcher)
        self._limit_reader = TenantLimitReader(self.context, wakeups)
        loops: tuple[Loop, ...] = (
            StatisticsWriter(self.context, wakeups),  # stopped last, to count what the others end
            CredentialUseWriter(self.context, wakeups),
            self._limit_reader,
            Planner(self.context, wakeups),
            dispatcher,
            WorkflowAdvancer(self.context, wakeups),
            GateOpener(self.context, wakeups),
            DeadlineExpirer(self.context, wakeups),
            CancelSender(self.context, wakeups, self.gateway),
            Preemptor(self.context, wakeups, self.gateway),
            LeaseRescuer(self.context, wakeups, settle),
            PauseResumer(self.context, wakeups),
            Backfiller(self.context, wakeups),
            FollowTrigger(self.context, wakeups),
            RunWatcher(self.context, wakeups),
            EventPublisher(self.context, wakeups),
            MaintenanceLoop(self.context, wakeups, keep_for=keep_for, archiver=archiver),
        )
        self.loops = tuple(loop for loop in loops if with_loops or loop.serves_requests)

    async def read_limits(self) -> None:
        """Read the limits of the tenants, so that the first requests and claims do not exceed them."""
        await self._limit_reader.turn()

    def start(self) -> None:
        for loop in self.loops:
            loop.start()

    async def stop(self) -> None:
        self.gateway.close()
        for loop in reversed(self.loops):
            await loop.stop()

    def stalled(self) -> list[str]:
        """Return the names of the required loops that count as failed (`Loop.problem`)."""
        return [loop.name for loop in self.loops if loop.is_required and loop.problem()]
