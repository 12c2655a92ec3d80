"""The store: the only truth. A few protocols, batch-first; a single call is a batch of one.

Rules every implementation keeps, proven by one conformance suite:

- A call is one transaction, durable when it returns. It happens completely or not at all; one bad item never
  fails its neighbours.
- Every write states its precondition and returns what it really changed. It never trusts what was read before.
- Due and lease conditions use the store's own clock.
- A call that raised `Unavailable` may have taken effect; each may be repeated as it is.
"""

from __future__ import annotations

from typing import Final, Literal, Protocol

from timeball.domain.instant import Micros
from timeball.ports.store.changes import ChangeListener
from timeball.ports.store.clock import ClockStore
from timeball.ports.store.jobs import JobStore
from timeball.ports.store.maintenance import MaintenanceStore
from timeball.ports.store.planning import BackfillStore, ForecastStore, PlanStore
from timeball.ports.store.queries import ArchiveStore, LargeStore, ReadStore, WhyStore
from timeball.ports.store.registry import CalendarStore, KeyStore, TaskStore
from timeball.ports.store.runs import GateStore, PreemptionStore, RepeatStore, RunStore
from timeball.ports.store.workers import WorkerStore
from timeball.ports.store.workflows import WorkflowStore

MAX_MESSAGE_BYTES: Final = 4_096
"""Maximum size of a message between servers."""
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
    KeyStore,
    TaskStore,
    CalendarStore,
    ForecastStore,
    MaintenanceStore,
    ClockStore,
    Protocol,
):
    @property
    def kind(self) -> StoreKind: ...

    def now(self) -> Micros:
        """The store's time, or an instant shortly before it; never after it, and never running backwards."""
        ...

    async def open(self) -> None:
        """Connect and migrate. A second embedded store on the same folder raises `Conflict`."""
        ...

    async def close(self) -> None: ...

    async def ping(self) -> None:
        """Raises `Unavailable` unless the store answers."""
        ...

    async def probe_write(self) -> None:
        """Commit a write of no consequence. Raises `Unavailable` if the store is read-only or its disk is full."""
        ...

    def listen(self, hint: WakeupListener) -> None:
        """Call `hint(topic)` whenever another server on this store says that there may be something to do.
        Topics are those of `ports.wakeups`. Lost hints cost at most a tick."""
        ...

    def wake_all(self, topic: str) -> None:
        """Give that hint to the other servers: soon, coalesced, never inside a transaction."""
        ...

    def watch_changes(self, listener: ChangeListener | None) -> None:
        """After each commit of this server, call `listener` with what it changed, in the event loop of the caller of
        the commit. A commit that changed no run, job or worker calls it too, or not. None: record nothing."""
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
    def __call__(self, topic: str) -> None: ...
