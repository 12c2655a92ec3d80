"""The worker gateway: implements `ports.worker_protocol.WorkerProtocol` on a server.

`session` has what a server remembers of each worker, and the diagram of its states; `idle_workers` lists the sessions
with free slots; `delivery` answers polls with claimed runs.

A session belongs to the API key that registered it. A message with another key gets the answer for a lost session, and
changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from timeball.domain import ids
from timeball.domain.errors import Unavailable
from timeball.domain.instant import SECOND, Micros
from timeball.domain.run.lifecycle import LEASE, Failed, Released
from timeball.operation.context import OperationContext
from timeball.operation.group_commit import GroupCommit
from timeball.operation.runs.settle import Settle
from timeball.ports.store.runs import Claim, Settlement, SlotRequest, Wanted
from timeball.ports.store.workers import Lease, WorkerRecord
from timeball.ports.wakeups import Topic
from timeball.ports.worker_protocol import (
    LOCAL_KEY,
    Beat,
    Ended,
    Poll,
    PollResponse,
    RegisterWorker,
    Report,
    ReportAck,
    SessionLost,
    WorkerRegistered,
)
from timeball.server.worker_gateway.attempt_spans import AttemptSpans
from timeball.server.worker_gateway.background import BackgroundTasks
from timeball.server.worker_gateway.delivery import Delivery
from timeball.server.worker_gateway.idle_workers import IdleSessions
from timeball.server.worker_gateway.large_results import offload_results
from timeball.server.worker_gateway.session import WorkerSession

BEAT_EVERY: Final = 5 * SECOND
MAX_POLL_WAIT: Final = 30 * SECOND


class WorkerGateway:
    def __init__(self, context: OperationContext, settle: Settle) -> None:
        self._store = context.store
        self._clock = context.clock
        self._rng = context.rng
        self._wakeups = context.wakeups
        self._run_events = context.run_events
        self._large_value_store = context.large_value_store
        self._limits = context.limits
        self._settle = settle
        self._sessions: dict[str, WorkerSession] = {}
        self._background = BackgroundTasks()
        self._idle = IdleSessions(context.clock)
        self._delivery = Delivery(context, settle, self._sessions, self._idle, self._background)
        self._spans = None if context.tracing is None else AttemptSpans(context.tracing, context.store)
        self._renewals = GroupCommit(self._renew_all)
        self._closed = False

    # --- messages of workers -----------------------------------------------------------------------------------

    async def hello(
        self, hello: RegisterWorker, key: str = LOCAL_KEY, tenants: Sequence[str] | None = None
    ) -> WorkerRegistered:
        now = self._store.now()
        worker = WorkerRecord(
            session=ids.make("w", now, self._rng),
            key=key,
            name=hello.name,
            slots=hello.slots,
            labels=hello.labels,
            tasks=hello.tasks,
            version=hello.version,
            started_at=now,
            seen_at=now,
            lease_until=now + LEASE,
            cpu=hello.cpu,
            memory_mb=hello.memory_mb,
            dedicated=hello.dedicated,
            kinds=hello.kinds,
            pools=hello.pools,
            tenants=None if tenants is None else list(tenants),
        )
        draining = await self._store.register(worker, LEASE, after=hello.after)
        self._sessions[worker.session] = self._idle.open(
            worker.session, worker.name, key, hello.pools, draining=draining
        )
        return WorkerRegistered(session=worker.session, lease=LEASE, beat_every=BEAT_EVERY)

    async def poll(self, poll: Poll, key: str = LOCAL_KEY) -> PollResponse:
        if self._closed:
            raise Unavailable("this server is stopping; use another one")
        session = await self._session(poll.session, key)
        claims = session.poll_arrived(poll.seq, poll.held)
        if claims is None:
            return PollResponse()
        is_over = bool(self._closed)  # the gateway may have closed while the session was looked up
        if session.in_doubt:
            if await self._store.give_back(session.id, poll.held, poll.seq):
                self._wakeups.wake(Topic.READY)
            session.verified()
            is_over = bool(self._closed) or not session.is_newest(poll.seq) or poll.session not in self._sessions
        if is_over:
            session.drop(claims)
            return PollResponse()
        if claims:
            answer = session.assign(claims, poll.free, self._store.now(), self._clock.monotonic(), poll.room)
            return self._with_address_lists(answer) if self._limits.address_lists else answer
        if (orders := session.orders()) is not None:
            return orders
        loop = asyncio.get_running_loop()
        waiting = session.wait(poll.seq, poll.free, loop.create_future(), poll.room)
        if waiting.free > 0:
            self._idle.on_demand(session.has_grown)
        timer = loop.call_later(min(poll.wait, MAX_POLL_WAIT) / SECOND, session.answer, PollResponse(), waiting)
        try:
            answer = await waiting.answer
            return self._with_address_lists(answer) if self._limits.address_lists else answer
        except BaseException:
            session.stop_waiting(waiting)
            raise
        finally:
            timer.cancel()

    async def beat(self, beat: Beat, key: str = LOCAL_KEY) -> PollResponse:
        self._refuse_if_foreign(beat.session, key)
        lease = await self._renew(beat.session, key)
        if lease is None:
            # The worker may have polled this server during the renewal. Then this server knows the session and its key.
            self._refuse_if_foreign(beat.session, key)
            self._end(beat.session)
            raise SessionLost(beat.session)
        holding = await self._store.holding(beat.session)
        held = set(beat.held)
        if (session := self._sessions.get(beat.session)) is not None:
            session.beat_arrived(held, holding.keys())
            if lease.draining:
                session.order_drain()
        return PollResponse(
            cancel=[token for token, wanted in holding.items() if wanted is Wanted.STOP and token in held],
            kill=[token for token, wanted in holding.items() if wanted is Wanted.DIE and token in held],
            lost=sorted(held.difference(holding)),
            drain=lease.draining,
        )

    async def report(self, report: Report, key: str = LOCAL_KEY) -> ReportAck:
        session = await self._session(report.session, key)
        now = self._store.now()
        if session.slots_changed(report.poll_seq, report.free, report.room):
            self._idle.on_demand(session.has_grown)
        stale: set[int] = set()
        if report.logs:
            stale.update(await self._store.append_logs(session.id, report.logs, now))
            if self._large_value_store.takes:
                session.printed(report.logs, stale)
            self._run_events.changed(chunk.run_id for chunk in report.logs)
        if report.started or report.progress:
            started = [(item, now - item.age) for item in report.started]
            stale.update(await self._store.note(session.id, started, report.progress))
            self._wakeups.wake(Topic.ENDED)
        if report.pausing:
            stale.update(await self._store.note_pauses(session.id, [(item, now - item.age) for item in report.pausing]))
        if report.ended:
            settlements = self._settlements(session.id, report.ended, now)
            if self._large_value_store.takes:
                settlements = await offload_results(self._store, self._large_value_store, settlements, report.ended)
            settled = await self._settle(settlements)
            if self._spans is not None:
                self._spans.settled((each for each, done in zip(report.ended, settled, strict=True) if done), now)
            if None in settled:
                stale.update(ended.token for ended, done in zip(report.ended, settled, strict=True) if done is None)
            for large in session.ended(report.ended):
                # Output of a released attempt is not offloaded: the next attempt has the same number.
                if large.token not in stale and not isinstance(large.outcome, Released):
                    self._background.start(self._large_value_store.offload_output(large.run_id, large.attempt))
        return ReportAck(stale=sorted(stale))

    async def goodbye(self, session: str, key: str = LOCAL_KEY) -> None:
        self._refuse_if_foreign(session, key)
        self._end(session)
        if not await self._store.end_session(session, key):
            raise SessionLost(session)
        self._wakeups.wake(Topic.READY)

    # --- what the loops need -----------------------------------------------------------------------------------

    def listen(self, on_demand: Callable[[bool], None]) -> None:
        """Register the function that is called when a worker has free slots. Its argument is True if the worker has
        more than the server knew of: free slots, or free slots of a pool."""
        self._idle.on_demand = on_demand

    @property
    def has_demand(self) -> bool:
        return self._idle.has_demand

    def wants(self) -> list[SlotRequest]:
        return self._idle.wants()

    def wants_soon(self, limit: int) -> list[SlotRequest]:
        return self._idle.wants_soon(limit)

    def wants_ahead(self) -> list[SlotRequest]:
        return self._idle.wants_ahead()

    async def deliver(self, claims: Sequence[Claim]) -> None:
        await self._delivery.deliver(claims)

    def mark_uncertain(self, wants: Iterable[SlotRequest]) -> None:
        """Mark sessions whose claims are unknown, because the store's answer to a claim was lost. With its next poll,
        such a worker releases the claims that it never received.
        """
        for want in wants:
            if (session := self._sessions.get(want.session)) is not None:
                session.mark_uncertain()

    def order_cancels(self, orders: Iterable[tuple[str, int, bool]]) -> None:
        """Send cancel orders to the workers that poll this server, now or with their next poll. Other workers get them
        with their next beat.
        """
        for session_id, token, at_once in orders:
            if (session := self._sessions.get(session_id)) is not None:
                session.order_cancel(token, at_once)

    def order_pauses(self, orders: Iterable[tuple[str, int, int]]) -> None:
        """Send preemption orders to the workers that poll this server. The caller repeats them until the store has the
        workers' answers.
        """
        for session_id, token, number in orders:
            if (session := self._sessions.get(session_id)) is not None:
                session.order_pause(token, number)

    def order_drains(self, session_ids: Iterable[str]) -> None:
        """Send orders to drain to the workers that poll this server, now or with their next poll. Other workers get
        them with their next beat.
        """
        for session_id in session_ids:
            if (session := self._sessions.get(session_id)) is not None:
                session.order_drain()

    def forget_silent(self) -> None:
        """Drop sessions without a message for two leases: their worker died or uses another server. The store still has
        them."""
        long_ago = self._clock.monotonic() - 2 * LEASE
        for session in list(self._sessions.values()):
            if session.is_silent_since(long_ago):
                del self._sessions[session.id]

    def close(self) -> None:
        """Answer every pending poll, because the server stops. Claims that wait for a next poll are released, since the
        workers send that poll to another server.
        """
        self._closed = True
        # A cancelled task leaves a claim that its worker releases with the next poll, at another server, or output that
        # was not offloaded and stays in the store.
        self._background.cancel()
        kept = [claim for session in self._sessions.values() for claim in session.close()]
        if kept:
            self._background.start(self._delivery.give_back(kept))
        self._idle.answer_all()

    # --- within ------------------------------------------------------------------------------------------------

    def _with_address_lists(self, answer: PollResponse) -> PollResponse:
        """Add the address lists of the tenants whose runs are assigned."""
        known = self._limits.address_lists
        tenants = {each.tenant for each in answer.assignments}
        return replace(answer, addresses={tenant: known[tenant] for tenant in tenants if tenant in known})

    def _refuse_if_foreign(self, session_id: str, key: str) -> None:
        known = self._sessions.get(session_id)
        if known is not None and not known.belongs_to(key):
            raise SessionLost(session_id)

    async def _session(self, session_id: str, key: str) -> WorkerSession:
        """Return the session that a message belongs to. If another server registered it, or this one before a restart,
        it is loaded from the store. Raise `SessionLost` if its lease has lapsed, or if it belongs to another key."""
        known = self._sessions.get(session_id)
        if known is not None:
            if known.heard(key, self._clock.monotonic()):
                return known
            raise SessionLost(session_id)
        lease = await self._renew(session_id, key)
        if lease is None:
            raise SessionLost(session_id)
        found = self._idle.open(session_id, lease.name, lease.key, lease.pools, in_doubt=True, draining=lease.draining)
        return self._sessions.setdefault(session_id, found)

    async def _renew(self, session_id: str, key: str) -> Lease | None:
        """Renew a lease. Renewals that arrive at the same time share one commit: when a server dies, all its workers
        move to the others at once.
        """
        (lease,) = await self._renewals([(session_id, key)])
        return lease

    async def _renew_all(self, sessions: Sequence[tuple[str, str]]) -> list[Lease | None]:
        return await self._store.renew(sessions, LEASE)

    def _end(self, session_id: str) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.end()

    def _settlements(self, session: str, ended: Iterable[Ended], now: Micros) -> list[Settlement]:
        settlements: list[Settlement] = []
        for each in ended:
            started_at = None if each.age is None else now - each.age
            finished_at = now if started_at is None else min(started_at + each.took, now)
            spread = self._rng.random() if type(each.outcome) is Failed else 0.0
            settlements.append(Settlement.of(each, session, each.outcome, started_at, finished_at, spread, each.host))
        return settlements
