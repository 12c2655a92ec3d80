"""Which loops are woken after attempts ended."""

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.builders import LEASE, one_shot, recurring, run, settlement, worker
from timeball.domain.dispatch.limits import Concurrency
from timeball.domain.run.lifecycle import Failed, Failure, Lost, Outcome, Released, Succeeded
from timeball.domain.task.retry import Retry
from timeball.domain.task.task import Http
from timeball.operation.context import OperationContext
from timeball.operation.runs.settle import Settle
from timeball.ports.store.runs import SlotRequest
from timeball.ports.wakeups import Topic
from timeball.server.wakeups import LocalWakeups
from timeball.stores.sqlite.store import SqliteStore
from timeball.system import SystemClock, monotonic, wall

BROKEN = Failed(Failure(kind="exit", message="exit code 1", exit_code=1))
ONCE = Retry(max_retries=0)


class House:
    def __init__(self) -> None:
        self.store = SqliteStore(":memory:", wall=wall, monotonic=monotonic, inline=True)
        self.wakeups: list[str] = []
        self.settle = Settle(
            OperationContext(self.store, SystemClock(), random.Random(1), LocalWakeups(self.wakeups.append))
        )


@pytest.fixture
async def house() -> AsyncIterator[House]:
    house = House()
    await house.store.open()
    await house.store.register(worker("w_1"), LEASE)
    yield house
    await house.store.close()


@pytest.mark.parametrize(
    ("fields", "outcome", "told"),
    [
        ({}, Succeeded(), False),
        ({"retry": ONCE}, BROKEN, False),
        ({}, BROKEN, True),
        ({}, Lost(), True),
        ({}, Released(), True),
        ({"ordering_key": "k"}, Succeeded(), True),
    ],
    ids=["success", "dead", "retry", "lost", "given back", "next under its key"],
)
async def test_dispatchers_are_told_only_if_something_may_be_claimable(
    house: House, fields: dict[str, Any], outcome: Outcome, told: bool
) -> None:
    await house.store.submit([one_shot(house.store.now(), **fields)])
    (claim,) = (await house.store.claim([SlotRequest("w_1", "", 1)], 0)).claims
    await house.settle([settlement(claim, outcome)])
    assert (Topic.READY in house.wakeups) is told
    house.wakeups.clear()
    await house.settle([settlement(claim, outcome)])
    assert Topic.READY in house.wakeups, "the answer to the first call may have been lost"


async def test_a_host_that_answers_again_lets_those_go_who_wait_for_it(house: House) -> None:
    task = Http(url="http://api.example.com/")
    call = Failed(Failure(kind="http", message="502", status=502))
    for outcome, told in ((Succeeded(), False), (call, False), (Succeeded(), True), (Succeeded(), False)):
        await house.store.submit([one_shot(house.store.now(), task=task, retry=ONCE)])
        (claim,) = (await house.store.claim([SlotRequest("w_1", "", 1)], 0)).claims
        house.wakeups.clear()
        await house.settle([settlement(claim, outcome, host="api.example.com:80")])
        assert (Topic.READY in house.wakeups) is told


async def test_a_free_permit_lets_the_next_one_go(house: House) -> None:
    limit = Concurrency(key="k", limit=1)
    await house.store.submit([one_shot(house.store.now(), concurrency=limit) for _ in range(2)])
    (claim,) = (await house.store.claim([SlotRequest("w_1", "", 9)], 0)).claims
    await house.settle([settlement(claim)])
    assert Topic.READY in house.wakeups
    (following,) = (await house.store.claim([SlotRequest("w_1", "", 9)], 0)).claims
    assert following.run_id != claim.run_id


async def test_the_end_of_a_serial_run_lets_the_next_one_go(house: House) -> None:
    serial = recurring(house.store.now(), seconds=3600)
    await house.store.submit([serial])
    await house.store.trigger([run(serial.job, house.store.now()) for _ in range(2)])
    (claim,) = (await house.store.claim([SlotRequest("w_1", "", 9)], 0)).claims
    await house.settle([settlement(claim)])
    assert Topic.READY in house.wakeups
