"""Answers pending polls with the runs that were claimed for them. A claim whose poll is no longer pending
is released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import structs

from timeball.domain.instant import SECOND, Micros
from timeball.domain.job.job import OffloadedSpec, decode_spec, is_offloaded
from timeball.domain.run.lifecycle import Released
from timeball.operation.context import OperationContext
from timeball.operation.runs.settle import Settle
from timeball.ports.store.runs import Claim, Settlement
from timeball.server.worker_gateway.attempt_spans import AttemptSpans
from timeball.server.worker_gateway.background import BackgroundTasks
from timeball.server.worker_gateway.idle_workers import IdleSessions
from timeball.server.worker_gateway.session import WorkerSession

PARAMETERS_RETRY_DELAY: Final = 10 * SECOND
"""Microseconds before a run is claimed again whose large parameters could not be read."""


class Delivery:
    def __init__(
        self,
        context: OperationContext,
        settle: Settle,
        sessions: Mapping[str, WorkerSession],
        idle: IdleSessions,
        background: BackgroundTasks,
    ) -> None:
        self._store = context.store
        self._clock = context.clock
        self._large_value_store = context.large_value_store
        self._settle = settle
        self._sessions = sessions
        self._idle = idle
        self._background = background
        self._spans = None if context.tracing is None else AttemptSpans(context.tracing, context.store)

    async def deliver(self, claims: Sequence[Claim]) -> None:
        """Answer the polls that these runs were claimed for. If a run has large parameters, its poll is answered once
        they are read from object storage; the other polls do not wait."""
        if self._spans is not None and claims:
            claims = await self._spans.claimed(claims, self._store.now())
        late = {(claim.session, claim.poll) for claim in claims if is_offloaded(claim.spec)}
        if late:
            self._idle.withhold(late)
            slow = [each for each in claims if (each.session, each.poll) in late]
            self._background.start(self._fetch_and_answer(slow, late))
            claims = [each for each in claims if (each.session, each.poll) not in late]
        await self._answer(claims)

    async def give_back(self, claims: Sequence[Claim]) -> None:
        now = self._store.now()
        await self._settle([released(claim, now) for claim in claims])

    async def _fetch_and_answer(self, claims: Sequence[Claim], polls: set[tuple[str, int]]) -> None:
        """Read the large parameters of these runs from object storage, then answer their polls. During the reads
        nothing else is claimed for these polls, because a poll has one answer. A run whose parameters cannot be read is
        released and tried again later.
        """
        complete: list[Claim] = []
        try:
            for claim in claims:
                spec = decode_spec(claim.spec)
                if isinstance(spec, OffloadedSpec):
                    filled = await self._large_value_store.whole_json(claim.spec, spec.parameters_at)
                    if filled is None:
                        await self._settle([released(claim, self._store.now(), PARAMETERS_RETRY_DELAY)])
                        continue
                    claim = structs.replace(claim, spec=filled)
                complete.append(claim)
        finally:
            self._idle.offer_again(polls)
        await self._answer(complete)
        self._idle.on_demand(True)  # a poll whose claims were all released is still pending

    async def _answer(self, claims: Sequence[Claim]) -> None:
        if not claims:
            return
        now, steady_now = self._store.now(), self._clock.monotonic()
        by_poll: dict[tuple[str, int], list[Claim]] = {}
        for claim in claims:
            if (poll_of := (claim.session, claim.poll)) in by_poll:
                by_poll[poll_of].append(claim)
            else:
                by_poll[poll_of] = [claim]
        orphans: list[Claim] = []
        for (session_id, poll), assigned in by_poll.items():
            session = self._sessions.get(session_id)
            if session is None or not session.deliver(poll, assigned, now, steady_now):
                orphans += assigned
        if orphans:
            await self.give_back(orphans)


def released(claim: Claim, now: Micros, wait: Micros = 0) -> Settlement:
    return Settlement.of(claim, claim.session, Released(wait), started_at=None, finished_at=now)
