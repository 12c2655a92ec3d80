"""The dependencies of every operation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from timeball.domain.audit_log.change import AuditedRequest
from timeball.operation.audit_log.export import AuditExports
from timeball.operation.credential_uses import CredentialUses
from timeball.operation.events.hub import EventHub
from timeball.operation.known_limits import KnownLimits
from timeball.operation.run_events import RunEvents
from timeball.operation.storage.large_values import LargeValueStore
from timeball.operation.storage.search_archive import Archive
from timeball.ports.clock import Clock, Rng
from timeball.ports.idle_workers import IdleWorkers, NoIdleWorkers
from timeball.ports.metrics import ServerMetrics
from timeball.ports.store.store import Store
from timeball.ports.telemetry.tracing import Tracing
from timeball.ports.wakeups import Wakeups


@dataclass(frozen=True, slots=True)
class OperationContext:
    store: Store
    clock: Clock
    rng: Rng
    wakeups: Wakeups
    idle_workers: IdleWorkers = field(default_factory=NoIdleWorkers)
    run_events: RunEvents = field(default_factory=RunEvents)
    """Wakes the requests of clients that wait for output or the end of a run."""
    events: EventHub = field(default_factory=EventHub)
    """The hub that sends changes of runs, jobs and workers to clients that listen."""
    credential_uses: CredentialUses = field(default_factory=CredentialUses)
    """The uses of credentials that are not stored yet."""
    audit_exports: AuditExports = field(default_factory=AuditExports)
    """The exports of the audit log in progress on this server."""
    limits: KnownLimits = field(default_factory=KnownLimits)
    """The limits of the tenants."""
    metrics: ServerMetrics = field(default_factory=ServerMetrics)
    """What the components of this server count for `/metrics`."""
    archive: Archive | None = None
    """The archive of finished runs that have left the store, if there is one."""
    large_value_store: LargeValueStore = field(default_factory=LargeValueStore)
    """Object storage for values that are too large for the store. The default offloads nothing."""
    tracing: Tracing | None = None
    """Where spans of traces go; None: no trace is recorded."""

    def for_request(self, request: AuditedRequest) -> OperationContext:
        """Return the same context, whose store appends the entry of the request to the audit log."""
        return replace(self, store=self.store.audited(request))
