"""The store of workers and their leases."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct, structs

from timeball.domain.dispatch.placement import NOTHING, UNLIMITED, Need, Offer, kind_label, tenant_label, tenant_of
from timeball.domain.dispatch.slot_pools import SlotPool
from timeball.domain.instant import Micros
from timeball.ports.store.runs import Settlement
from timeball.ports.worker_protocol import LOCAL_KEY


class SessionEnd(StrEnum):
    LOST = "lost"
    """The lease ran out."""
    LEFT = "left"
    """The worker said goodbye: it was stopped or drained."""


class WorkerRecord(Struct, frozen=True, kw_only=True):
    """A worker and its session."""

    session: str
    key: str | None
    """The id of the API key that opened the session, or `LOCAL_KEY`; None: an older version of the server opened it,
    which did not store keys.
    """
    name: str
    slots: int
    labels: list[str]
    tasks: list[str]
    version: str
    started_at: Micros
    seen_at: Micros
    lease_until: Micros
    running: int = 0
    used: Need = NOTHING
    """The slots, CPUs and memory that the runs of the worker use."""
    cpu: float | None = None
    memory_mb: int | None = None
    dedicated: bool = False
    kinds: list[str] | None = None
    """The task kinds that the worker accepts; None: all kinds."""
    tenants: list[str] | None = None
    """The tenants that the worker serves, by its API key; None: all tenants."""
    pools: Sequence[SlotPool] = ()
    """The pools that bound some of its runs."""
    reserved_for: str | None = None
    """The placement profile for which the worker is reserved, so that a waiting run of this profile gets its capacity;
    None if the worker is not reserved."""
    draining_since: Micros | None = None
    """The time at which the worker was ordered to drain; None if it was not."""
    ended: SessionEnd | None = None
    """The way in which the session ended; None if it has a valid lease."""

    @property
    def offer(self) -> Offer:
        """The whole capacity of the worker, including what its runs use."""
        return Offer(
            session=self.session,
            slots=self.slots,
            cpu=UNLIMITED if self.cpu is None else round(self.cpu * 1000),
            memory=UNLIMITED if self.memory_mb is None else self.memory_mb,
            labels=frozenset(self.labels),
            dedicated=self.dedicated,
            reserved_for=self.reserved_for,
            kinds=None if self.kinds is None else frozenset(map(kind_label, self.kinds)),
            tenants=None if self.tenants is None else frozenset(map(tenant_label, self.tenants)),
        )

    def serves(self, tenant: str) -> bool:
        return self.tenants is None or tenant in self.tenants

    def for_tenant(self, tenant: str) -> WorkerRecord:
        """Return the worker as the callers of a tenant that it serves see it: it accepts the runs of this tenant, and a
        reservation for another one is not shown."""
        mine = self.reserved_for is not None and tenant_of(self.reserved_for) == tenant
        return structs.replace(self, tenants=None, reserved_for=self.reserved_for if mine else None)


class Lease(Struct, frozen=True):
    """A session whose lease was renewed."""

    name: str
    """The name of the worker."""
    key: str | None
    """The id of the API key that opened the session; None: an older version of the server opened it, which did not
    store keys.
    """
    draining: bool = False
    """True if the worker was ordered to drain."""
    pools: Sequence[SlotPool] = ()
    """The pools that bound some runs of the worker."""


class Unreported(Struct, frozen=True):
    """A page of attempts whose end is overdue although the leases of their workers are valid."""

    runs: list[Settlement]
    """The attempts as settlements with the outcome `Lost`. `spread` is 0: a lost attempt is retried without a delay."""
    after: tuple[str, str] | None
    """The session and run id after which the next page begins; None: this was the last page."""


class WorkerStore(Protocol):
    async def register(self, worker: WorkerRecord, lease: Micros, *, after: str | None = None) -> bool:
        """Insert a session with a lease that starts now. A session that exists already stays as it is. `after` is the
        session that the same process of the worker had before: an order to drain that was given to it, for the same
        key, holds for the new session as well. Return True if the new session is draining.
        """
        ...

    async def drain(self, session: str) -> bool:
        """Order the worker of a session to drain: no transaction that begins after this one claims a run for it. The
        order is final. Return False if there is no such session with a valid lease.
        """
        ...

    async def renew(self, sessions: Sequence[tuple[str, str]], lease: Micros) -> list[Lease | None]:
        """Extend the leases of sessions to `lease` microseconds from now. Each session is given with the API key of the
        message. Return one result per session, in order. None: the lease has lapsed, the session does not exist, or
        another key opened it; nothing was changed. A lapsed lease is never valid again.
        """
        ...

    async def give_back(self, session: str, held: Sequence[int], poll: int) -> int:
        """Release the RUNNING runs of a session that were claimed for polls before `poll` and whose tokens are not in
        `held`. Return how many were released. That costs no attempt; a run whose cancellation was requested ends as
        CANCELLED. Because of the poll number, a poll that arrives after newer ones never releases runs that were
        assigned with the answers to those.
        """
        ...

    async def lapsed(self, limit: int) -> list[Settlement]:
        """Mark the leases that have run out as lapsed. Return up to `limit` RUNNING runs whose session has no valid
        lease, as settlements with the outcome `Lost`. The caller settles them.
        """
        ...

    async def unreported(self, after: tuple[str, str], limit: int) -> Unreported:
        """Return the attempts whose end was not reported by `lifecycle.report_due_at`, among the next `limit` attempts
        that were claimed longer than a lease ago. The order is by session and run id, and begins after `after`. An
        attempt without a timeout is never overdue.
        """
        ...

    async def end_session(self, session: str, key: str = LOCAL_KEY) -> bool:
        """End the lease of a session now and release all attempts that it holds. Return False, and change nothing, if
        there is no such session or another key opened it.
        """
        ...

    async def forget_sessions(self, seen_before: Micros) -> int:
        """Delete sessions whose lease ended before `seen_before` and that hold no attempt. Return how many were
        deleted."""
        ...

    async def workers(self, tenant: str | None = None) -> list[WorkerRecord]:
        """Return the workers with a valid lease, newest first, without those whose API key was revoked. With a tenant:
        those that serve it, as its callers see them, without what concerns other tenants."""
        ...

    async def gone_workers(self, limit: int, tenant: str | None = None) -> list[WorkerRecord]:
        """Return up to `limit` workers whose session has ended and is not deleted yet, the last to end first. Their
        `lease_until` is the time of the end. With a tenant: those of them that served it.
        """
        ...
