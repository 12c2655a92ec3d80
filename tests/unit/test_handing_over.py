"""Who submits and who waits for work find each other, and nobody is claimed for twice."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.builders import one_shot, spec
from timeball import system
from timeball.domain.instant import SECOND, Micros
from timeball.operation.submit import NewJob, Submit
from timeball.ports.dispatch import Hello, Orders, Poll
from timeball.ports.hints import Topic
from timeball.ports.store import Claimed, Want
from timeball.service.server import Server
from timeball.stores.sqlite import SqliteStore

JOB = NewJob("default", spec())


class CountingStore(SqliteStore):
    """Counts claims, and lets a test hold them up."""

    claims = 0
    go: asyncio.Event

    async def claim(self, wants: Sequence[Want], ahead: Micros) -> Claimed:
        self.claims += 1
        await self.go.wait()
        return await super().claim(wants, ahead)


class House:
    """A server, and a worker of which only the polls are there."""

    def __init__(self, store: CountingStore) -> None:
        self.store = store
        self.server = Server(store, system.SystemClock(), system.dice())
        self.submit = Submit(self.server.context, lambda _: b"")
        self.session = ""
        self._polls = 0

    def poll(self, free: int, held: Sequence[int] = ()) -> asyncio.Task[Orders]:
        self._polls += 1
        asked = Poll(session=self.session, seq=self._polls, free=free, held=list(held), wait=60 * SECOND)
        return asyncio.create_task(self.server.desk.poll(asked))

    async def until_dry(self) -> None:
        """Until the server knows that nothing is ready."""
        while True:
            with self.server.context.floor.lend() as wants:
                if wants:
                    return
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
        made.session = (await made.server.desk.hello(Hello(name="w", slots=10))).session
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


async def test_while_a_claim_is_under_way_nobody_else_is_offered_its_slots(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        here.store.go.clear()
        waiting = here.poll(free=2)
        while not here.store.claims:
            await asyncio.sleep(0.001)
        await here.submit([JOB])
        assert not waiting.done()
        here.store.go.set()
        assert len((await waiting).assignments) == 1


async def test_what_becomes_ready_while_the_floor_is_lent_is_claimed_after(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        waiting = here.poll(free=2)
        await here.until_dry()
        before = here.store.claims
        with here.server.context.floor.lend() as wants:
            assert wants
            with here.server.context.floor.lend() as others:
                assert not others
            await here.store.submit([one_shot(here.store.now())])
            here.server.context.hints.give(Topic.READY)
            await asyncio.sleep(0.05)
            assert here.store.claims == before
        assert len((await waiting).assignments) == 1
