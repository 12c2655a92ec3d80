"""A submit assigns its runs to idle workers, and no slot is claimed for twice."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.builders import one_shot, spec
from timeball import system
from timeball.domain.instant import SECOND, Micros
from timeball.operation.jobs.submit import NewJob, Submit
from timeball.ports.store.runs import Claimed, SlotRequest
from timeball.ports.worker_protocol import Poll, PollResponse, RegisterWorker
from timeball.server.server import Server
from timeball.stores.sqlite.store import SqliteStore

JOB = NewJob("default", spec())


class CountingStore(SqliteStore):
    """Counts claims, and lets a test hold them up."""

    claims = 0
    looked = 0
    go: asyncio.Event

    async def claim(self, wants: Sequence[SlotRequest], ahead: Micros) -> Claimed:
        self.claims += 1
        await self.go.wait()
        return await super().claim(wants, ahead)

    async def next_eligible_at(self, after: Micros = 0, *, constrained_after: Micros = 0) -> Micros | None:
        found = await super().next_eligible_at(after, constrained_after=constrained_after)
        self.looked += 1
        return found


class House:
    """A server, and a worker of which only the polls are there."""

    def __init__(self, store: CountingStore) -> None:
        self.store = store
        self.server = Server(store, system.SystemClock(), system.rng())
        self.submit = Submit(self.server.context, lambda _: b"")
        self.session = ""
        self._polls = 0

    def poll(self, free: int, held: Sequence[int] = ()) -> asyncio.Task[PollResponse]:
        self._polls += 1
        asked = Poll(session=self.session, seq=self._polls, free=free, held=list(held), wait=60 * SECOND)
        return asyncio.create_task(self.server.gateway.poll(asked))

    def lose_a_poll(self) -> None:
        self._polls += 1

    async def until_dry(self) -> None:
        """Until the server has looked and knows that nothing is ready."""
        before = self.store.looked
        while self.store.looked == before:
            await asyncio.sleep(0.001)


@asynccontextmanager
async def house(folder: Path) -> AsyncIterator[House]:
    store = CountingStore(folder / "timeball.db", wall=system.wall, monotonic=system.monotonic)
    store.go = asyncio.Event()
    store.go.set()
    await store.open()
    made = House(store)
    try:
        made.server.start()
        made.session = (await made.server.gateway.hello(RegisterWorker(name="w", slots=10))).session
        yield made
    finally:
        store.go.set()
        await made.server.stop()
        await store.close()


async def test_what_is_submitted_goes_to_who_waits_without_a_claim(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        waiting = here.poll(free=3)
        await here.until_dry()
        before = here.store.claims
        await here.submit([JOB] * 2)
        assert len((await waiting).assignments) == 2
        assert here.store.claims == before


async def test_what_finds_no_slot_is_claimed_when_there_is_one(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        waiting = here.poll(free=1)
        await here.until_dry()
        await here.submit([JOB] * 3)
        first = (await waiting).assignments
        assert len(first) == 1
        second = (await here.poll(free=5, held=[each.token for each in first])).assignments
        assert len(second) == 2


async def test_slots_that_an_answer_left_are_filled_for_the_next_poll(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        waiting = here.poll(free=5)
        await here.until_dry()
        before = here.store.claims
        await here.submit([JOB] * 2)
        first = (await waiting).assignments
        await here.submit([JOB] * 2)
        second = (await here.poll(free=3, held=[each.token for each in first])).assignments
        assert (len(first), len(second)) == (2, 2)
        assert here.store.claims == before


async def test_what_was_kept_for_a_poll_that_never_came_is_given_back(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        waiting = here.poll(free=5)
        await here.until_dry()
        await here.submit([JOB])
        first = (await waiting).assignments
        await here.submit([JOB])
        here.lose_a_poll()
        second = (await here.poll(free=4, held=[each.token for each in first])).assignments
        assert len(second) == 1
        assert second[0].run_id != first[0].run_id


async def test_claims_for_who_waits_take_turns(tmp_path: Path) -> None:
    """While one is under way, nobody else is offered the same slots."""
    async with house(tmp_path) as here:
        here.store.go.clear()
        waiting = here.poll(free=1)
        while not here.store.claims:
            await asyncio.sleep(0.001)
        submitting = asyncio.create_task(here.submit([JOB] * 2))
        await asyncio.sleep(0.05)
        assert not submitting.done()
        here.store.go.set()
        await submitting
        first = (await waiting).assignments
        assert len(first) == 1
        assert len((await here.poll(free=1, held=[first[0].token])).assignments) == 1


async def test_a_submission_also_claims_what_was_ready_before(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        waiting = here.poll(free=2)
        await here.until_dry()
        early = one_shot(here.store.now() - SECOND)
        await here.store.submit([early])
        await here.submit([JOB])
        found = [each.run_id for each in (await waiting).assignments]
        assert len(found) == 2
        assert found[0] == early.runs[0].id
