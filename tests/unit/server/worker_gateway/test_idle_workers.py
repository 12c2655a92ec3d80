"""The workers for which runs may be claimed."""

from __future__ import annotations

import asyncio

import pytest

from timeball.ports.store.runs import Claim, SlotRequest
from timeball.server.worker_gateway.idle_workers import IdleSessions
from timeball.server.worker_gateway.session import RETURN_TIME, WorkerSession
from timeball.system import SystemClock


class StillClock(SystemClock):
    time = 1_000

    def monotonic(self) -> int:
        return self.time


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def idle(clock: StillClock) -> IdleSessions:
    return IdleSessions(clock)


def waiting(idle: IdleSessions, session_id: str, free: int) -> WorkerSession:
    session = idle.open(session_id, "worker", "k_1")
    poll(session, 1, free)
    return session


def poll(session: WorkerSession, seq: int, free: int) -> None:
    assert session.poll_arrived(seq, []) is not None
    session.verified()
    session.wait(seq, free, asyncio.get_running_loop().create_future())


def deliver(session: WorkerSession, poll: int, now: int) -> None:
    claim = Claim(
        run_id="r_1",
        job_id="j_1",
        attempt=1,
        token=poll,
        serial=False,
        session=session.id,
        poll=poll,
        fire_time=0,
        eligible_at=0,
        spec=b"{}",
        task=None,
    )
    assert session.deliver(poll, [claim], 0, now)


async def test_workers_with_free_slots_are_asked_for_in_the_order_in_which_they_began_to_wait(
    idle: IdleSessions,
) -> None:
    first = waiting(idle, "w_1", 2)
    waiting(idle, "w_2", 0)
    waiting(idle, "w_3", 1)
    assert idle.wants() == [SlotRequest("w_1", "worker", 2, 1), SlotRequest("w_3", "worker", 1, 1)]
    poll(first, 2, 2)
    assert [each.session for each in idle.wants()] == ["w_3", "w_1"]
    assert idle.wants_soon(1) == [SlotRequest("w_3", "worker", 1, 1)]


async def test_there_is_demand_while_a_poll_with_free_slots_is_pending(idle: IdleSessions) -> None:
    session = waiting(idle, "w_1", 0)
    assert not idle.has_demand
    session.slots_changed(1, 1)
    assert idle.has_demand
    idle.answer_all()
    assert not idle.has_demand


async def test_a_worker_with_slots_left_is_expected_back_for_a_while(idle: IdleSessions, clock: StillClock) -> None:
    session = waiting(idle, "w_1", 3)
    deliver(session, 1, clock.time)
    next_poll = SlotRequest("w_1", "worker", 2, 2)
    assert (idle.wants(), idle.wants_soon(9), idle.wants_ahead()) == ([], [next_poll], [next_poll])
    clock.time += RETURN_TIME
    assert (idle.wants_soon(9), idle.wants_ahead()) == ([], [])


async def test_what_is_claimed_ahead_of_a_poll_is_claimed_in_one_go(idle: IdleSessions, clock: StillClock) -> None:
    session = waiting(idle, "w_1", 3)
    deliver(session, 1, clock.time)
    deliver(session, 2, clock.time)
    assert idle.wants_ahead() == []
    assert idle.wants_soon(9) == [SlotRequest("w_1", "worker", 1, 2)]


async def test_a_worker_that_is_back_is_not_expected(idle: IdleSessions, clock: StillClock) -> None:
    session = waiting(idle, "w_1", 3)
    deliver(session, 1, clock.time)
    poll(session, 2, 0)
    assert idle.wants_soon(9) == idle.wants_ahead() == []


async def test_nothing_is_claimed_for_polls_that_wait_for_parameters(idle: IdleSessions, clock: StillClock) -> None:
    waiting(idle, "w_1", 1)
    session = waiting(idle, "w_2", 3)
    deliver(session, 1, clock.time)
    idle.withhold({("w_1", 1), ("w_2", 2)})
    assert not idle.has_demand
    assert idle.wants() == idle.wants_soon(9) == idle.wants_ahead() == []
    idle.offer_again({("w_1", 1), ("w_2", 2)})
    assert [each.session for each in idle.wants_soon(9)] == ["w_1", "w_2"]
