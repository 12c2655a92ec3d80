"""The store: all its operations, combined from parts that share one driver."""

from __future__ import annotations

from typing import Self

from timeball.domain.audit_log.change import AuditedRequest
from timeball.domain.instant import Micros
from timeball.ports.metrics import StoreMetrics, StoreUse
from timeball.ports.store.changes import ChangeListener
from timeball.ports.store.store import MessageListener, StoreKind, WakeupListener
from timeball.ports.store_clock import ClockState
from timeball.stores.sql.audit_log.appending import AuditingDriver
from timeball.stores.sql.audit_log.reading import AuditLog
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.jobs.amend import Amendments
from timeball.stores.sql.jobs.backfills import Backfills
from timeball.stores.sql.jobs.job_lists import JobLists
from timeball.stores.sql.jobs.job_versions import JobVersions
from timeball.stores.sql.jobs.jobs import Jobs
from timeball.stores.sql.jobs.large_values import LargeValues
from timeball.stores.sql.jobs.manual_runs import ManualRuns
from timeball.stores.sql.maintenance.maintenance import Maintenance
from timeball.stores.sql.maintenance.stored_bytes import StoredBytes
from timeball.stores.sql.maintenance.tenant_deletion import TenantDeletions
from timeball.stores.sql.maintenance.usage import UsageSums
from timeball.stores.sql.overview.attention import AttentionReads
from timeball.stores.sql.overview.fleet import FleetReads
from timeball.stores.sql.overview.lanes import Lanes
from timeball.stores.sql.overview.present import PresentReads
from timeball.stores.sql.overview.recent_runs import RecentRuns
from timeball.stores.sql.overview.starts import StartReads
from timeball.stores.sql.overview.statistics import Statistics
from timeball.stores.sql.planning.forecast import Forecasts
from timeball.stores.sql.planning.planning_failures import PlanningFailures
from timeball.stores.sql.planning.plans import NOW, Plans
from timeball.stores.sql.planning.preemption import Preempting
from timeball.stores.sql.reading.archive import Archiving
from timeball.stores.sql.reading.dead_letters import DeadLetterReads
from timeball.stores.sql.reading.diagnosis_snapshot import DiagnosisSnapshots
from timeball.stores.sql.reading.ledger import LedgerReads
from timeball.stores.sql.reading.runs import Reads
from timeball.stores.sql.registry.api_keys import Keys
from timeball.stores.sql.registry.calendars import Calendars
from timeball.stores.sql.registry.registered_tasks import Tasks
from timeball.stores.sql.registry.users import Users
from timeball.stores.sql.registry.web_sessions import WebSessions
from timeball.stores.sql.runs.deadlines import Deadlines
from timeball.stores.sql.runs.follows import Follows
from timeball.stores.sql.runs.runs import Runs
from timeball.stores.sql.runs.workers import Workers
from timeball.stores.sql.statements import query
from timeball.stores.sql.tenants.tenants import Tenants
from timeball.stores.sql.workflows.workflow_runs import WorkflowRuns

PROBE_WRITE = query("probe_write")


class SqlStore(
    Jobs,
    JobLists,
    JobVersions,
    Amendments,
    ManualRuns,
    Backfills,
    Preempting,
    Plans,
    PlanningFailures,
    Follows,
    Runs,
    Deadlines,
    WorkflowRuns,
    Workers,
    Reads,
    LedgerReads,
    DeadLetterReads,
    DiagnosisSnapshots,
    Statistics,
    PresentReads,
    FleetReads,
    AttentionReads,
    Lanes,
    RecentRuns,
    StartReads,
    Tenants,
    TenantDeletions,
    UsageSums,
    StoredBytes,
    Users,
    Keys,
    WebSessions,
    Tasks,
    Calendars,
    Forecasts,
    Archiving,
    LargeValues,
    AuditLog,
    Maintenance,
):
    """Implements `timeball.ports.store.store.Store`."""

    kind: StoreKind

    def audited(self, request: AuditedRequest) -> Self:
        return self.with_driver(AuditingDriver(self._db, request))

    @property
    def metrics(self) -> StoreMetrics:
        return self._db.metrics

    def use(self) -> StoreUse:
        return self._db.use()

    def now(self) -> Micros:
        return self._db.now()

    def clock_state(self) -> ClockState:
        return ClockState(store_time=self.now(), wall_clock=None)

    def planning_held(self) -> bool:
        return False

    def verdicts_until(self) -> Micros:
        return 0

    async def accept_clock(self) -> ClockState:
        return self.clock_state()

    async def open(self) -> None:
        await self._db.open()

    async def close(self) -> None:
        await self._db.close()

    async def ping(self) -> None:
        async def work(tx: Tx) -> None:
            await tx.fetch(NOW)

        await self._db.read(work)

    async def probe_write(self) -> None:
        async def work(tx: Tx) -> None:
            await tx.execute(PROBE_WRITE)

        await self._db.write(work)

    def listen(self, hint: WakeupListener) -> None:
        self._db.listen(hint)

    def wake_all(self, topic: str) -> None:
        self._db.wake_all(topic)

    def watch_changes(self, listener: ChangeListener | None) -> None:
        self._db.watch_changes(listener)

    def listen_to_servers(self, listener: MessageListener) -> None:
        self._db.listen_to_servers(listener)

    def send_to_servers(self, message: str) -> None:
        self._db.send_to_servers(message)
