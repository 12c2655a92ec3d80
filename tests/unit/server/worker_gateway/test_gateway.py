"""The orders and assignments that the gateway sends to workers, and when."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence

import msgspec
import pytest

from tests.support.builders import one_shot
from timeball.domain.run.lifecycle import Succeeded
from timeball.operation.context import OperationContext
from timeball.operation.runs.settle import Settle
from timeball.ports.store.runs import Settlement, SlotRequest
from timeball.ports.worker_protocol import Beat, Ended, Poll, PollResponse, RegisterWorker, Report
from timeball.server.wakeups import LocalWakeups
from timeball.server.worker_gateway.gateway import LEASE, WorkerGateway
from timeball.stores.sqlite.store import SqliteStore
from timeball.system import SystemClock, monotonic, wall


class Clock(SystemClock):
    offset = 0

    def monotonic(self) -> int:
        return super().monotonic() + self.offset


@pytest.fixture
async def gateway() -> AsyncIterator[WorkerGateway]:
    store = SqliteStore(":memory:", wall=wall, monotonic=monotonic, inline=True)
    await store.open()
    context = OperationContext(store, Clock(), random.Random(3), LocalWakeups(lambda _: None))
    yield WorkerGateway(context, Settle(context))
    await store.close()


def poll(session: str, seq: int, *held: int, wait: int = 0) -> Poll:
    return Poll(session=session, seq=seq, free=0, held=list(held), wait=wait)


async def test_a_cancel_that_finds_no_poll_goes_out_with_the_next(gateway: WorkerGateway) -> None:
    """Polls are answered and come back all the time; a cancel must not depend on finding one that waits."""
    welcome = await gateway.hello(RegisterWorker(name="w", slots=1))
    gateway.order_cancels([(welcome.session, 7, False)])
    assert await gateway.poll(poll(welcome.session, 1, 7)) == PollResponse(cancel=[7])
    assert await gateway.poll(poll(welcome.session, 2, 7)) == PollResponse(), "once; beats repeat it"


async def test_a_cancel_answers_the_poll_that_waits(gateway: WorkerGateway) -> None:
    welcome = await gateway.hello(RegisterWorker(name="w", slots=1))
    waiting = asyncio.create_task(gateway.poll(poll(welcome.session, 1, 7, wait=60_000_000)))
    await asyncio.sleep(0.01)
    gateway.order_cancels([(welcome.session, 7, False)])
    assert await waiting == PollResponse(cancel=[7])


async def test_a_cancel_that_becomes_a_kill_goes_out_once_more(gateway: WorkerGateway) -> None:
    welcome = await gateway.hello(RegisterWorker(name="w", slots=1))
    session = welcome.session
    answers = []
    for seq, (token, kill) in enumerate([(7, False), (7, False), (7, True), (7, True), (7, False), (8, True)], start=1):
        gateway.order_cancels([(session, token, kill)])
        answers.append(await gateway.poll(poll(session, seq, 7, 8)))
    nothing = PollResponse()
    assert answers == [
        PollResponse(cancel=[7]),
        nothing,
        PollResponse(kill=[7]),
        nothing,
        nothing,
        PollResponse(kill=[8]),
    ]


async def test_an_order_to_drain_answers_the_poll_that_waits_once_and_every_beat(gateway: WorkerGateway) -> None:
    welcome = await gateway.hello(RegisterWorker(name="w", slots=3))
    session = welcome.session
    asking = Poll(session=session, seq=1, free=3, held=[], wait=60_000_000)
    waiting = asyncio.create_task(gateway.poll(asking))
    await asyncio.sleep(0.01)
    assert gateway.has_demand
    await gateway._store.drain(session)
    for _ in range(2):
        gateway.order_drains([session, "w_unknown"])
    assert await waiting == PollResponse(drain=True)
    again = asyncio.create_task(gateway.poll(msgspec.structs.replace(asking, seq=2)))
    await asyncio.sleep(0.01)
    assert not gateway.has_demand, "nothing is claimed for it"
    await gateway.report(Report(session=session, poll_seq=2, free=2))
    assert not gateway.has_demand
    for _ in range(2):
        assert await gateway.beat(Beat(session=session, held=[])) == PollResponse(drain=True)
    assert not again.done()
    again.cancel()


async def test_an_order_to_drain_holds_on_a_server_that_does_not_know_the_session(gateway: WorkerGateway) -> None:
    welcome = await gateway.hello(RegisterWorker(name="w", slots=3))
    await gateway._store.drain(welcome.session)
    gateway._sessions.clear()
    assert await gateway.poll(poll(welcome.session, 1)) == PollResponse(drain=True)


async def test_an_order_to_drain_reaches_the_session_that_follows_a_lost_one(gateway: WorkerGateway) -> None:
    first = await gateway.hello(RegisterWorker(name="w", slots=3))
    await gateway._store.drain(first.session)
    second = await gateway.hello(RegisterWorker(name="w", slots=3, after=first.session))
    assert await gateway.poll(poll(second.session, 1)) == PollResponse(drain=True)


async def test_the_host_that_was_called_reaches_the_store(
    gateway: WorkerGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    welcome = await gateway.hello(RegisterWorker(name="w", slots=1))
    settled: list[Settlement] = []

    async def settle(settlements: Sequence[Settlement]) -> list[None]:
        settled.extend(settlements)
        return [None for _ in settlements]

    monkeypatch.setattr(gateway, "_settle", settle)
    ended = [
        Ended(run_id="r", job_id="j", attempt=1, token=token, serial=False, outcome=Succeeded(), host=host)
        for token, host in ((1, "api.example.com:443"), (2, None))
    ]
    await gateway.report(Report(session=welcome.session, poll_seq=0, free=1, ended=ended))
    assert [each.host for each in settled] == ["api.example.com:443", None]


async def test_workers_that_fell_silent_are_forgotten_but_not_lost(gateway: WorkerGateway) -> None:
    welcome = await gateway.hello(RegisterWorker(name="w", slots=1))
    Clock.offset = 3 * LEASE
    try:
        gateway.forget_silent()
        assert not gateway._sessions
        assert await gateway.poll(poll(welcome.session, 1)) == PollResponse(), "the store still knows it"
    finally:
        Clock.offset = 0


async def test_what_was_claimed_for_nobody_is_given_back(gateway: WorkerGateway) -> None:
    welcome = await gateway.hello(RegisterWorker(name="w", slots=1))
    await gateway._store.submit([one_shot(gateway._store.now())])
    claimed = await gateway._store.claim([SlotRequest(welcome.session, "w", 1, 1)], 0)
    assert len(claimed.claims) == 1
    await gateway.deliver(claimed.claims)
    assert await gateway._store.holding(welcome.session) == {}


@pytest.mark.parametrize("noticed_by", ["the server that asked", "a beat"])
async def test_what_was_claimed_without_an_answer_comes_back_with_the_next_poll(
    gateway: WorkerGateway, noticed_by: str
) -> None:
    session = (await gateway.hello(RegisterWorker(name="w", slots=1))).session
    waiting = asyncio.create_task(gateway.poll(Poll(session=session, seq=1, free=1, held=[], wait=60_000_000)))
    await asyncio.sleep(0.01)
    store = gateway._store
    await store.submit([one_shot(store.now())])
    wants = gateway.wants()
    (lost,) = (await store.claim(wants, 0)).claims
    if noticed_by == "a beat":
        await gateway.beat(Beat(session=session, held=[]))
    else:
        gateway.mark_uncertain(wants)
    assert await waiting == PollResponse(), "it polls again, and does not know of anything"
    await gateway.poll(poll(session, 2))
    (again,) = (await store.claim([SlotRequest(session, "w", 1, 3)], 0)).claims
    assert (again.run_id, again.attempt) == (lost.run_id, lost.attempt), "at no cost"
    assert again.token > lost.token


async def test_what_another_server_claimed_and_never_handed_out_comes_back_with_the_first_poll_here(
    gateway: WorkerGateway,
) -> None:
    """A server that the worker left and comes back to has not forgotten it, but does not know what it missed."""
    session = (await gateway.hello(RegisterWorker(name="w", slots=1))).session
    await gateway.poll(poll(session, 1))
    store = gateway._store
    await store.submit([one_shot(store.now())])
    (lost,) = (await store.claim([SlotRequest(session, "w", 1, 2)], 0)).claims  # by another server, which died
    await gateway.poll(poll(session, 3))
    (again,) = (await store.claim([SlotRequest(session, "w", 1, 4)], 0)).claims
    assert (again.run_id, again.attempt) == (lost.run_id, lost.attempt), "at no cost"
    assert again.token > lost.token


async def test_workers_that_come_from_a_dead_server_all_at_once_share_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of a thousand used to be a commit, and a list of all workers: they lost their sessions over it."""
    store = SqliteStore(":memory:", wall=wall, monotonic=monotonic, inline=True)
    await store.open()
    context = OperationContext(store, Clock(), random.Random(3), LocalWakeups(lambda _: None))
    left, right = WorkerGateway(context, Settle(context)), WorkerGateway(context, Settle(context))
    sessions = [(await left.hello(RegisterWorker(name=f"w{number}", slots=1))).session for number in range(50)]
    renewed: list[Sequence[str]] = []
    renew = store.renew

    async def counting(sessions: Sequence[str], lease: int) -> list[str | None]:
        renewed.append(sessions)
        await asyncio.sleep(0.01)
        return await renew(sessions, lease)

    async def nobody() -> list[None]:
        raise AssertionError("nobody needs to know all workers")

    monkeypatch.setattr(store, "renew", counting)
    monkeypatch.setattr(store, "workers", nobody)
    await asyncio.gather(*(right.poll(poll(session, 2)) for session in sessions))
    await asyncio.gather(*(right.beat(Beat(session=session, held=[])) for session in sessions))
    assert len(renewed) <= 4
    assert sum(map(len, renewed)) == 2 * len(sessions)
    await store.close()
