"""Where workers are served: `ports.worker_protocol.WorkerProtocol` on a server.

It remembers per session what it handed out and which poll waits; all of that may be lost with the server: the store
knows every claim, and a session that a fresh server does not know is looked up there.

A session belongs to the key of its hello. A message that comes with another key is answered as one for a session that
is over, and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import structlog
from msgspec import UNSET, Raw, structs

from timeball.domain import ids
from timeball.domain.errors import Unavailable
from timeball.domain.instant import MILLISECOND, SECOND, Micros
from timeball.domain.job.job import OffloadedSpec, decode_spec, is_offloaded
from timeball.domain.job.large_values import LARGE
from timeball.domain.run.lifecycle import LEASE, Failed, Released
from timeball.operation.context import Context
from timeball.operation.group_commit import GroupCommit
from timeball.operation.runs.settle import Settle
from timeball.operation.storage.large_values import is_large
from timeball.ports.store.runs import Claim, Settlement, SlotRequest, Wanted
from timeball.ports.store.workers import Lease, Worker
from timeball.ports.wakeups import Topic
from timeball.ports.worker_protocol import (
    LOCAL_KEY,
    Assignment,
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
from timeball.server.worker_gateway.session import PendingPoll, WorkerSession, by_poll, expected_want, with_cancels

BEAT_EVERY: Final = 5 * SECOND
MAX_POLL_WAIT: Final = 30 * SECOND
PARAMETERS_AFTER: Final = 10 * SECOND
"""When a run whose parameters could not be read is tried again."""
SOON: Final = 100 * MILLISECOND
"""A worker whose poll was answered with less than it could take is expected back within this."""
_log = structlog.get_logger()


class WorkerGateway:
    def __init__(self, context: Context, settle: Settle) -> None:
        self._store = context.store
        self._clock = context.clock
        self._dice = context.dice
        self._wakeups = context.wakeups
        self._run_events = context.run_events
        self._settle = settle
        self._sessions: dict[str, WorkerSession] = {}
        self._polling: dict[str, WorkerSession] = {}
        """Those whose poll hangs, who waits longest first: of a thousand workers, most are not asked about."""
        self._expected: dict[str, WorkerSession] = {}
        """Those who may be back in a moment with slots that were left."""
        self._large_value_store = context.large_value_store
        self._beside: set[asyncio.Task[None]] = set()
        """What is done with large values meanwhile."""
        self._fetching: set[tuple[str, int]] = set()
        """Sessions and polls that wait for parameters of what was claimed for them."""
        self._renewals = GroupCommit(self._renew_all)
        self._closed = False
        self.on_demand: Callable[[], None] = lambda: None
        """Called when somebody waits for work; the dispatcher listens."""

    # --- what workers ask --------------------------------------------------------------------------------------

    async def hello(self, hello: RegisterWorker, key: str = LOCAL_KEY) -> WorkerRegistered:
        now = self._store.now()
        worker = Worker(
            session=ids.make("w", now, self._dice),
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
        )
        await self._store.register(worker, LEASE)
        self._sessions[worker.session] = WorkerSession(
            worker.session, worker.name, key, heard_at=self._clock.monotonic()
        )
        return WorkerRegistered(session=worker.session, lease=LEASE, beat_every=BEAT_EVERY)

    async def poll(self, poll: Poll, key: str = LOCAL_KEY) -> PollResponse:
        self._refuse_if_closed()
        session = await self._session(poll.session, key)
        if poll.seq <= session.polled:
            return PollResponse()
        pending, session.pending, session.spare = session.pending, [], 0
        if poll.seq != session.polled + 1:  # the polls between went to another server, or were lost on their way
            pending, session.unverified = [], True
        session.polled = poll.seq
        self._answer(session, PollResponse())  # whoever polls again has given up on the poll before
        if session.unverified or not session.handed.issubset(poll.held):
            # Some answer never arrived. Since a worker never acts on a poll that it gave up, nobody executes what was
            # claimed for earlier polls and is not among what it holds.
            session.unverified = True
            session.cancelling.clear()
            session.handed.intersection_update(poll.held)
            if await self._store.give_back(session.id, poll.held, poll.seq):
                self._wakeups.wake(Topic.READY)
            session.unverified = False
        if self._closed or session.polled != poll.seq or poll.session not in self._sessions:
            session.unverified = session.unverified or bool(pending)
            return PollResponse()
        if pending:
            return with_cancels(session, self._assign(session, pending, poll.free))
        if session.to_cancel or session.to_pause:
            return with_cancels(session, PollResponse())
        free = session.offered[1] if session.offered[0] == poll.seq else poll.free
        waiting = PendingPoll(poll.seq, free, asyncio.get_running_loop().create_future())
        session.waiting = waiting
        self._polling[session.id] = session
        if free > 0:
            self.on_demand()
        alarm = asyncio.get_running_loop().call_later(
            min(poll.wait, MAX_POLL_WAIT) / SECOND, self._answer, session, PollResponse(), waiting
        )
        try:
            return await waiting.answer
        finally:
            alarm.cancel()
            if session.waiting is waiting:
                session.waiting = None
                self._polling.pop(session.id, None)

    async def beat(self, beat: Beat, key: str = LOCAL_KEY) -> PollResponse:
        self._refuse_if_foreign(beat.session, key)
        if await self._renew(beat.session, key) is None:
            self._refuse_if_foreign(beat.session, key)  # by now its own worker may have come to this server
            self._forget(beat.session)
            raise SessionLost(beat.session)
        holding = await self._store.holding(beat.session)
        held = set(beat.held)
        if (session := self._sessions.get(beat.session)) is not None:
            session.unverified = not holding.keys() <= held
            if session.unverified:
                self._answer(session, PollResponse())  # the next poll gives them back
        return PollResponse(
            cancel=[token for token, wanted in holding.items() if wanted is Wanted.STOP and token in held],
            kill=[token for token, wanted in holding.items() if wanted is Wanted.DIE and token in held],
            lost=sorted(held.difference(holding)),
        )

    async def report(self, report: Report, key: str = LOCAL_KEY) -> ReportAck:
        session = await self._session(report.session, key)
        now = self._store.now()
        waiting = session.waiting
        session.offered = (report.poll_seq, report.free)
        if waiting is not None and waiting.seq == report.poll_seq and waiting.free != report.free:
            waiting.free = report.free
            if waiting.free > 0:
                self.on_demand()
        stale: set[int] = set()
        if report.logs:
            stale.update(await self._store.append_logs(session.id, report.logs, now))
            if self._large_value_store.takes:
                for chunk in (each for each in report.logs if each.token not in stale):
                    session.printed[chunk.token] = session.printed.get(chunk.token, 0) + len(chunk.text)
            self._run_events.changed(chunk.run_id for chunk in report.logs)
        if report.started or report.progress:
            started = [(item, now - item.age) for item in report.started]
            stale.update(await self._store.note(session.id, started, report.progress))
            self._wakeups.wake(Topic.ENDED)
        if report.pausing:
            stale.update(await self._store.note_pauses(session.id, [(item, now - item.age) for item in report.pausing]))
        if report.ended:
            settlements = self._settlements(session.id, report.ended, now)
            if self._large_value_store.takes and any(ended.placed or is_large(ended.outcome) for ended in report.ended):
                settlements = await self._stow_results(session, settlements, report.ended)
            settled = await self._settle(settlements)
            if None in settled:
                stale.update(ended.token for ended, done in zip(report.ended, settled, strict=True) if done is None)
            tokens = [ended.token for ended in report.ended]
            session.handed.difference_update(tokens)
            if session.printed:
                self._stow_outputs(session, report.ended, stale)
            if session.to_cancel or session.cancelling:
                for token in tokens:
                    session.to_cancel.pop(token, None)
                    session.cancelling.pop(token, None)
        return ReportAck(stale=sorted(stale))

    def _settlements(self, session: str, ended: Iterable[Ended], now: Micros) -> list[Settlement]:
        settlements: list[Settlement] = []
        for each in ended:
            started_at = None if each.age is None else now - each.age
            finished_at = now if started_at is None else started_at + each.took
            spread = self._dice.random() if isinstance(each.outcome, Failed) else 0.0
            settlements.append(Settlement.of(each, session, each.outcome, started_at, finished_at, spread, each.host))
        return settlements

    async def _stow_results(
        self, session: WorkerSession, settlements: Sequence[Settlement], ended: Sequence[Ended]
    ) -> list[Settlement]:
        """An object is written before the row that refers to it, and only for an attempt that the session holds: what
        is forged or stale writes nothing. The guard of the row decides once more."""
        wanted = [each for each, said in zip(settlements, ended, strict=True) if said.placed or is_large(said.outcome)]
        held = await self._store.held(session.id, [_attempt_of(each) for each in wanted])
        return await asyncio.gather(
            *(self._stow_result(each, said, held) for each, said in zip(settlements, ended, strict=True))
        )

    async def _stow_result(
        self, settlement: Settlement, ended: Ended, held: Container[tuple[str, int, int]]
    ) -> Settlement:
        """Where it goes is what the job says, not what its worker does."""
        if _attempt_of(settlement) not in held or not (ended.placed or is_large(ended.outcome)):
            return settlement
        run_id = settlement.run_id
        found = (await self._store.specs([run_id])).get(run_id)
        location = None if found is None else found.spec.result_location
        outcome = await self._large_value_store.offload_result(run_id, settlement.token, settlement.outcome, location)
        return structs.replace(settlement, outcome=outcome)

    def _stow_outputs(self, session: WorkerSession, ended: Iterable[Ended], stale: Container[int]) -> None:
        for each in ended:
            # The next attempt has the number of one that was given back.
            is_large = session.printed.pop(each.token, 0) > LARGE
            if is_large and each.token not in stale and not isinstance(each.outcome, Released):
                self._do(self._large_value_store.offload_output(each.run_id, each.attempt))

    async def goodbye(self, session: str, key: str = LOCAL_KEY) -> None:
        self._refuse_if_foreign(session, key)
        self._forget(session)
        if not await self._store.end_session(session, key):
            raise SessionLost(session)
        self._wakeups.wake(Topic.READY)

    # --- what the loops do -------------------------------------------------------------------------------------

    @property
    def has_demand(self) -> bool:
        return any(True for _ in self._waiting())

    def wants(self) -> list[SlotRequest]:
        """Who waits, with how many free slots."""
        return list(self._waiting())

    def wants_soon(self, most: int) -> list[SlotRequest]:
        """Who waits, and who will be back in a moment with slots that were left; not more than so many of each."""
        return [*islice(self._waiting(), most), *map(expected_want, islice(self._coming(), most))]

    def wants_ahead(self) -> list[SlotRequest]:
        """Who waits, and who will be back in a moment with slots that were left and has nothing coming to it yet: what
        is claimed for a poll after that might find it answered with the rest."""
        return [*self._waiting(), *(expected_want(session) for session in self._coming() if not session.pending)]

    def _coming(self) -> Iterator[WorkerSession]:
        now = self._clock.monotonic()
        for session in list(self._expected.values()):
            if session.waiting is not None or session.spare <= 0 or now >= session.spare_until or self._closed:
                del self._expected[session.id]
        return (
            session
            for session in self._expected.values()
            if not self._fetching or (session.id, session.polled + 1) not in self._fetching
        )

    def _waiting(self) -> Iterator[SlotRequest]:
        return (
            SlotRequest(session.id, session.worker, session.waiting.free, session.waiting.seq)
            for session in self._polling.values()
            if session.waiting is not None
            and session.waiting.free > 0
            and (not self._fetching or (session.id, session.waiting.seq) not in self._fetching)
        )

    async def deliver(self, claims: Sequence[Claim]) -> None:
        """Answer the polls that wait. Those one of whose runs has large parameters wait for these, the others do
        not."""
        late = {(claim.session, claim.poll) for claim in claims if is_offloaded(claim.spec)}
        if late:
            self._fetching |= late
            self._do(self._fetch_and_hand_out([each for each in claims if (each.session, each.poll) in late], late))
            claims = [each for each in claims if (each.session, each.poll) not in late]
        await self._hand_out(claims)

    async def _fetch_and_hand_out(self, claims: Sequence[Claim], polls: set[tuple[str, int]]) -> None:
        """What cannot start, since its parameters cannot be had now, is given back and tried again later. Meanwhile
        nothing else is claimed for these polls: an answer with that would come first, and be the only one."""
        whole: list[Claim] = []
        try:
            for claim in claims:
                spec = decode_spec(claim.spec)
                if isinstance(spec, OffloadedSpec):
                    filled = await self._large_value_store.whole_json(claim.spec, spec.parameters_at)
                    if filled is None:
                        await self._settle([_released(claim, self._store.now(), wait=PARAMETERS_AFTER)])
                        continue
                    claim = structs.replace(claim, spec=filled)
                whole.append(claim)
        finally:
            self._fetching -= polls
        await self._hand_out(whole)
        self.on_demand()  # a poll of which nothing came is still there

    def _do(self, work: Coroutine[object, object, None]) -> None:
        """Beside everything else."""
        task = asyncio.create_task(work, name="desk")
        self._beside.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._beside.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("what was done beside the rest failed", error=str(error) or type(error).__name__)

    async def _hand_out(self, claims: Sequence[Claim]) -> None:
        """Answer the polls that wait, or keep it for the one that is expected. What nobody waits for any more is given
        back at once: also if another poll of the session waits by now, which may already have given it back as unknown
        to its worker."""
        orphans: list[Claim] = []
        for (session_id, poll), assigned in by_poll(claims).items():
            session = self._sessions.get(session_id)
            waiting = session.waiting if session is not None else None
            slots = sum(claim.slots for claim in assigned)
            if session is not None and waiting is not None and waiting.seq == poll and not waiting.answer.done():
                self._answer(session, self._assign(session, assigned, waiting.free))
            elif session is not None and poll == session.polled + 1 and session.spare >= slots and not self._closed:
                session.pending += assigned
                session.spare -= slots
            else:
                orphans += assigned
        await self._release(orphans)

    async def _release(self, claims: Sequence[Claim]) -> None:
        if claims:
            await self._settle([_released(claim, self._store.now()) for claim in claims])

    def mark_uncertain(self, wants: Sequence[SlotRequest]) -> None:
        """The answer to a claim for them was lost. Whoever polls again gives back what it never got."""
        for want in wants:
            session = self._sessions.get(want.session)
            if session is not None:
                session.unverified = True
                self._answer(session, PollResponse())

    def order_cancels(self, orders: Iterable[tuple[str, int, bool]]) -> None:
        """Tell the workers that poll here, now or with their next poll; others learn it with their next beat. Each
        order goes out once, and once more if what was to stop is now to stop at once."""
        for session_id, token, at_once in orders:
            session = self._sessions.get(session_id)
            if session is None:
                continue
            told = session.cancelling.get(token)
            if told is None or (at_once and not told):
                session.to_cancel[token] = at_once
                self._answer(session, PollResponse())

    def order_pauses(self, orders: Iterable[tuple[str, int, int]]) -> None:
        """Tell the workers that poll here. Who does not answer is told again, until the store knows the answer."""
        for session_id, token, number in orders:
            session = self._sessions.get(session_id)
            if session is not None:
                session.to_pause[token] = number
                self._answer(session, PollResponse())

    def forget_silent(self) -> None:
        """Drop what is remembered of workers that died or went to another server; the store still knows them."""
        long_ago = self._clock.monotonic() - 2 * LEASE
        for session in list(self._sessions.values()):
            if session.waiting is None and session.heard_at < long_ago:
                del self._sessions[session.id]

    def close(self) -> None:
        """Answer every poll, and send who polls again elsewhere, where it does not find what was claimed for it here:
        the server stops."""
        self._closed = True
        for task in self._beside:
            task.cancel()  # its runs are given back when their worker polls elsewhere, its output stays where it is
        if pending := [claim for session in self._sessions.values() for claim in session.pending]:
            self._do(self._release(pending))
        for session in self._sessions.values():
            session.pending = []
        for session in list(self._polling.values()):
            self._answer(session, PollResponse())

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise Unavailable("this server is about to stop; ask another one")

    # --- within ------------------------------------------------------------------------------------------------

    async def _renew(self, session_id: str, key: str) -> Lease | None:
        """The leases of all who beat meanwhile are one commit: when a server dies, its workers come to the others all
        at once."""
        (lease,) = await self._renewals([(session_id, key)])
        return lease

    async def _renew_all(self, sessions: Sequence[tuple[str, str]]) -> list[Lease | None]:
        return await self._store.renew(sessions, LEASE)

    def _refuse_if_foreign(self, session_id: str, key: str) -> None:
        known = self._sessions.get(session_id)
        if known is not None and not known.belongs_to(key):
            raise SessionLost(session_id)

    async def _session(self, session_id: str, key: str) -> WorkerSession:
        """The session, also one that another server, or this one before its restart, said hello to."""
        self._refuse_if_foreign(session_id, key)
        known = self._sessions.get(session_id)
        if known is not None:
            known.heard_at = self._clock.monotonic()
            return known
        lease = await self._renew(session_id, key)
        if lease is None:
            raise SessionLost(session_id)
        found = WorkerSession(session_id, lease.name, lease.key, heard_at=self._clock.monotonic(), unverified=True)
        return self._sessions.setdefault(session_id, found)

    def _assign(self, session: WorkerSession, claims: Sequence[Claim], free: int) -> PollResponse:
        """What the newest poll of a session, with so many free slots, is answered."""
        now = self._store.now()
        session.handed.update(claim.token for claim in claims)
        session.spare = free - sum(claim.slots for claim in claims)
        session.spare_until = self._clock.monotonic() + SOON
        if session.spare > 0:
            self._expected[session.id] = session
        return PollResponse(assignments=[_assignment(claim, now) for claim in claims])

    def _answer(self, session: WorkerSession, orders: PollResponse, only: PendingPoll | None = None) -> None:
        waiting = session.waiting
        if waiting is None or (only is not None and waiting is not only):
            return
        session.waiting = None
        self._polling.pop(session.id, None)
        if not waiting.answer.done():
            waiting.answer.set_result(with_cancels(session, orders))

    def _forget(self, session_id: str) -> None:
        session = self._sessions.pop(session_id, None)
        self._expected.pop(session_id, None)
        if session is not None:
            self._answer(session, PollResponse())


def _attempt_of(settlement: Settlement) -> tuple[str, int, int]:
    return settlement.run_id, settlement.attempt, settlement.token


def _released(claim: Claim, now: Micros, wait: Micros = 0) -> Settlement:
    return Settlement.of(claim, claim.session, Released(wait), started_at=None, finished_at=now)


def _assignment(claim: Claim, now: Micros) -> Assignment:
    return Assignment(
        run_id=claim.run_id,
        job_id=claim.job_id,
        attempt=claim.attempt,
        token=claim.token,
        delay=max(0, claim.eligible_at - now),
        fire_time=claim.fire_time,
        serial=claim.serial,
        turn=claim.turn,
        spec=Raw(claim.spec),
        task=UNSET if claim.task is None else Raw(claim.task),
    )
