"""The store: the only truth. Its calls take batches; a single item is a batch of one.

Every implementation keeps these rules, and one conformance suite checks them:

- A call is one transaction. It takes effect completely or not at all, and is durable when it returns. A call with many
  items may take several transactions; then this holds for each item.
- One bad item of a batch never fails the other items, unless the docstring of the call says so (`amend`).
- Every write checks its precondition inside the transaction and returns what it changed. It does not rely on what was
  read before.
- Whether a run is due, or a lease has lapsed, is decided on the store's own clock.
- A call that raised `Unavailable` may have taken effect. Every call may be repeated unchanged.
- `may_lag=True` allows a replica that is slightly behind to answer a read. No decision may depend on such a read.
"""

from __future__ import annotations

from typing import Final, Literal, Protocol

from timeball.domain.audit_log.change import AuditedRequest
from timeball.domain.instant import Micros
from timeball.ports.metrics import StoreMetrics, StoreUse
from timeball.ports.store.audit_log import AuditStore
from timeball.ports.store.changes import ChangeListener
from timeball.ports.store.jobs import JobStore
from timeball.ports.store.maintenance import MaintenanceStore
from timeball.ports.store.overview import OverviewStore
from timeball.ports.store.planning import BackfillStore, ForecastStore, PlanStore
from timeball.ports.store.queries import ArchiveStore, LargeStore, ReadStore, WhyStore
from timeball.ports.store.registry import CalendarStore, KeyStore, TaskStore
from timeball.ports.store.runs import GateStore, PreemptionStore, RepeatStore, RunStore
from timeball.ports.store.sign_in import SignInStore
from timeball.ports.store.tenants import TenantDeletionStore, TenantStore, UsageStore, UserStore
from timeball.ports.store.workers import WorkerStore
from timeball.ports.store.workflows import WorkflowStore
from timeball.ports.store_clock import ClockStore

MAX_MESSAGE_BYTES: Final = 4_096
"""Maximum size of a message between servers, in bytes."""
StoreKind = Literal["sqlite", "postgresql"]


class Store(
    JobStore,
    PlanStore,
    RunStore,
    RepeatStore,
    BackfillStore,
    PreemptionStore,
    GateStore,
    WorkflowStore,
    WorkerStore,
    ReadStore,
    ArchiveStore,
    LargeStore,
    WhyStore,
    OverviewStore,
    TenantStore,
    TenantDeletionStore,
    UserStore,
    UsageStore,
    KeyStore,
    SignInStore,
    TaskStore,
    CalendarStore,
    ForecastStore,
    AuditStore,
    MaintenanceStore,
    ClockStore,
    Protocol,
):
    @property
    def kind(self) -> StoreKind: ...

    @property
    def metrics(self) -> StoreMetrics:
        """What this store object has counted."""
        ...

    def use(self) -> StoreUse: ...

    def audited(self, request: AuditedRequest) -> Store:
        """Return this store for one request: the first of its transactions that changes something appends the entry of
        the request to the audit log, in the same transaction. Both take effect, or neither does. Jobs that fire once
        leave no entry."""
        ...

    def now(self) -> Micros:
        """Return the store's time, or an instant shortly before it. The answer is never later than the store's time and
        never runs backwards.
        """
        ...

    async def open(self) -> None:
        """Connect to the database and migrate its schema. Raises `Conflict` if the store cannot be used as it is: for
        example, another process has opened the same embedded store, a newer version wrote it, or it is damaged.
        Raises `ClockRefused` if the clock of the node is implausible, and `Unavailable` if the database cannot be
        reached.
        """
        ...

    async def close(self) -> None:
        """Finish the writes that have begun, then close all connections. An embedded store is free for another process
        after this.
        """
        ...

    async def ping(self) -> None:
        """Wait for an answer of the store. Raises `Unavailable` if there is none."""
        ...

    async def probe_write(self) -> None:
        """Commit a test write that changes no job, run or setting. Raises `Unavailable` if the store is read-only or
        its disk is full.
        """
        ...

    def listen(self, hint: WakeupListener) -> None:
        """Call `hint(topic)` whenever another server on this store sends a wakeup. Topics are those of `ports.wakeups`.
        A wakeup may be lost, which delays the work by at most one tick (one second)."""
        ...

    def wake_all(self, topic: str) -> None:
        """Send a wakeup to the other servers on this store, within milliseconds. Several wakeups of one topic may be
        sent as one. This never blocks, and sends nothing inside a transaction.
        """
        ...

    def watch_changes(self, listener: ChangeListener | None) -> None:
        """After each commit of this server, call `listener` with what the commit changed, in the event loop of the
        caller of the commit. A commit that changed no run, job or worker may call it, too. If `listener` is None, only
        the ends of runs and fires are recorded, for the statistics."""
        ...

    def listen_to_servers(self, listener: MessageListener) -> None:
        """Call `listener(message)` for each message that another server sends, and `listener(None)` when messages may
        have been lost."""
        ...

    def send_to_servers(self, message: str) -> None:
        """Send a message of at most `MAX_MESSAGE_BYTES` to the other servers: soon, never inside a transaction. It may
        be lost; the listener is called with None if the loss is noticed."""
        ...


class MessageListener(Protocol):
    def __call__(self, message: str | None) -> None: ...


class WakeupListener(Protocol):
    """Receives the topics of wakeups that other servers send."""

    def __call__(self, topic: str) -> None: ...
