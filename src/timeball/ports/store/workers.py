"""The store of workers and their leases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from timeball.domain.dispatch.placement import NOTHING, UNLIMITED, Need, Offer, kind_label
from timeball.domain.instant import Micros
from timeball.ports.store.runs import Settlement
from timeball.ports.worker_protocol import LOCAL_KEY


class Worker(Struct, frozen=True, kw_only=True):
    session: str
    key: str | None
    """The id of the key that opened the session, or `LOCAL_KEY`; None: see `Lease.key`."""
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
    """What its runs take of it."""
    cpu: float | None = None
    memory_mb: int | None = None
    dedicated: bool = False
    kinds: list[str] | None = None
    """The kinds of tasks that it takes; None: every one."""
    reserved_for: str | None = None
    """The profile of the run that waits until this worker has room for it."""

    @property
    def offer(self) -> Offer:
        """All that it has to offer."""
        return Offer(
            session=self.session,
            slots=self.slots,
            cpu=UNLIMITED if self.cpu is None else round(self.cpu * 1000),
            memory=UNLIMITED if self.memory_mb is None else self.memory_mb,
            labels=frozenset(self.labels),
            dedicated=self.dedicated,
            reserved_for=self.reserved_for,
            kinds=None if self.kinds is None else frozenset(map(kind_label, self.kinds)),
        )


class Lease(Struct, frozen=True):
    """Of a session, once it was renewed."""

    name: str
    """The worker's."""
    key: str | None
    """That opened the session; None: a server opened it that did not know keys of sessions yet."""


class Unreported(Struct, frozen=True):
    """A page of the attempts whose end is overdue although their workers are alive."""

    runs: list[Settlement]
    """As `Lost` settlements (spread 0)."""
    after: tuple[str, str] | None
    """Where the next page begins; None: this was the last one."""


class WorkerStore(Protocol):
    async def register(self, worker: Worker, lease: Micros) -> None:
        """A new session with a lease that starts now."""
        ...

    async def renew(self, sessions: Sequence[tuple[str, str]], lease: Micros) -> list[Lease | None]:
        """Extend the leases of sessions, each given with the key that speaks for it, from now on. None: it lapsed or
        never was, or another key opened it; it stays so."""
        ...

    async def give_back(self, session: str, held: Sequence[int], poll: int) -> int:
        """Give back the session's RUNNING runs that were claimed for polls before this one and whose token is not
        held; how many. Costs no attempt; a run whose cancel was requested ends CANCELLED. A poll that arrives late,
        after the worker sent others, thus never touches what those were answered with."""
        ...

    async def lapsed(self, limit: int) -> list[Settlement]:
        """RUNNING runs whose session's lease lapsed or is gone, as `Lost` settlements (spread 0)."""
        ...

    async def unreported(self, after: tuple[str, str], limit: int) -> Unreported:
        """RUNNING runs whose end was not reported by `lifecycle.report_due_at`, among the next so many attempts that
        workers have had for longer than a lease, by session and id. A run without a timeout is none of them."""
        ...

    async def end_session(self, session: str, key: str = LOCAL_KEY) -> bool:
        """Let the lease lapse now and give back everything it holds. False: there is no such session, or another key
        opened it; nothing changes."""
        ...

    async def forget_sessions(self, seen_before: Micros) -> int:
        """Drop sessions that lapsed before an instant and hold nothing."""
        ...

    async def workers(self) -> list[Worker]:
        """Sessions with a lease, newest first."""
        ...
