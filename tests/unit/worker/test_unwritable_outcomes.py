"""I26, I30: an outcome that cannot be stored delays no other outcome, and its run still ends."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from tests.support.builders import LEASE, one_shot, settlement, worker
from tests.support.fake_worker_protocol import FakeDispatch, python
from timeball.domain.errors import Unavailable
from timeball.domain.run.lifecycle import Failed, Failure, Outcome, Succeeded
from timeball.domain.run.status import Status
from timeball.domain.task.retry import Retry
from timeball.operation.context import OperationContext
from timeball.operation.runs.settle import Settle
from timeball.ports.executor import ExecutorAttempt
from timeball.ports.store.runs import Claim, Settled, Settlement, SlotRequest
from timeball.ports.worker_protocol import (
    MAX_EXCEPTION_LENGTH,
    MAX_EXCEPTIONS,
    MAX_KIND_LENGTH,
    MAX_MESSAGE_LENGTH,
    RegisterWorker,
    Report,
    ReportAck,
    ServerFault,
)
from timeball.server.wakeups import LocalWakeups
from timeball.stores.sqlite.store import SqliteStore
from timeball.system import SystemClock, monotonic, rng, wall
from timeball.worker.worker import Worker

pytestmark = pytest.mark.timeout(300)

HALF = "\ud800"
"""Half of a surrogate pair: Python has such text, no encoding does."""
ODD = Failure(
    kind=f"{HALF}kind" * 100,
    message=f"\0{HALF}message" * 5_000,
    exceptions=(f"{HALF}Error" * 500,) * 500,
)
ONCE = Retry(max_retries=0)


class Executor:
    """Ends each attempt with the outcome that stands under the name of its function."""

    kind = "python"

    def __init__(self, **outcomes: Outcome) -> None:
        self.outcomes = outcomes

    async def execute(self, attempt: ExecutorAttempt) -> Outcome:
        function: str = getattr(attempt.task, "function", "")
        return self.outcomes.get(function, Succeeded())


class Encoding(FakeDispatch):
    """Says what it is told in JSON, as one over HTTP does; and fails for reports with certain tokens in them."""

    def __init__(self, *bad: int, error: type[Exception] = ServerFault) -> None:
        super().__init__()
        self.bad = set(bad)
        self.error = error
        self.tried: list[list[int]] = []

    async def report(self, report: Report) -> ReportAck:
        report = msgspec.json.decode(msgspec.json.encode(report), type=Report)
        self.tried.append([ended.token for ended in report.ended])
        if any(
            ended.token in self.bad and not (isinstance(ended.outcome, Failed) and self.error is ServerFault)
            for ended in report.ended
        ):
            raise self.error("it cannot be done")
        return await super().report(report)


@asynccontextmanager
async def working(server: FakeDispatch, executor: Executor) -> AsyncIterator[Worker]:
    working = Worker(server, {"python": executor}, SystemClock(), RegisterWorker(name="w", slots=200), rng=rng())
    await working.start()
    try:
        yield working
    finally:
        await working.stop()


async def test_whatever_a_failure_says_its_worker_reports_text_that_can_be_sent_and_stored() -> None:
    server = Encoding()
    async with working(server, Executor(odd=Failed(ODD))):
        server.give(python(1, "odd"), python(2, "plain"))
        await server.until(lambda: len(server.ended) == 2)
    outcome = server.ended[1].outcome
    assert isinstance(outcome, Failed)
    failure = outcome.failure
    assert 0 < len(failure.kind) <= MAX_KIND_LENGTH
    assert 0 < len(failure.message) <= MAX_MESSAGE_LENGTH
    assert len(failure.exceptions) == MAX_EXCEPTIONS
    assert all(0 < len(name) <= MAX_EXCEPTION_LENGTH for name in failure.exceptions)
    assert HALF not in failure.kind + failure.message + "".join(failure.exceptions)
    assert "\0" not in failure.message


async def test_a_report_that_fails_each_time_is_split_until_the_cause_is_alone_and_that_is_failed() -> None:
    server = Encoding(23)
    async with working(server, Executor()):
        server.give(*(python(token, "plain") for token in range(1, 101)))
        await server.until(lambda: len(server.ended) == 100)
        await server.until_polled(lambda poll: poll.held == [])
    outcome = server.ended[23].outcome
    assert isinstance(outcome, Failed)
    assert outcome.failure.message == "its outcome could not be reported: ServerFault: it cannot be done"
    assert all(ended.outcome == Succeeded() for token, ended in server.ended.items() if token != 23)
    assert [] in server.tried, "the server was asked whether it takes reports at all"
    assert len(server.tried) < 40


async def test_a_server_that_fails_whatever_it_is_sent_turns_no_success_into_a_failure() -> None:
    server = Encoding()
    server.failing["report"] = lambda: ServerFault("nothing works here")
    async with working(server, Executor()):
        server.give(python(1, "plain"), python(2, "plain"))
        await server.until(lambda: len(server.tried) > 8)
        del server.failing["report"]
        server.reports.clear()
        await server.until(lambda: len(server.ended) == 2)
    assert {ended.outcome for ended in server.ended.values()} == {Succeeded()}


async def test_what_cannot_even_be_reported_as_failed_is_tried_again_behind_the_others() -> None:
    """The content of an outcome is not the reason if a plain failure fails as well."""
    server = Encoding(1, error=RuntimeError)
    async with working(server, Executor()):
        server.give(python(1, "plain"), python(2, "plain"))
        await server.until(lambda: 2 in server.ended)
        server.give(python(3, "plain"))
        await server.until(lambda: 3 in server.ended)
        assert 1 not in server.ended
        server.bad.clear()
        await server.until(lambda: 1 in server.ended)
        await server.until_polled(lambda poll: poll.held == [])
    assert isinstance(server.ended[1].outcome, Succeeded | Failed)


class Picky(SqliteStore):
    """Cannot write some outcomes: for what they hold, or for whose they are."""

    unwritable: bytes = b"poison"
    batches: list[int]
    down = False

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled | None]:
        self.batches.append(len(settlements))
        if self.down:
            raise Unavailable("away")
        if any(self.unwritable in msgspec.json.encode(each.outcome) for each in settlements):
            raise ValueError("odd text")
        return await super().settle(settlements)


@pytest.fixture
async def store() -> AsyncIterator[Picky]:
    store = Picky(":memory:", wall=wall, monotonic=monotonic, inline=True)
    store.batches = []
    await store.open()
    await store.register(worker("w_1"), LEASE)
    yield store
    await store.close()


def settle_of(store: Picky) -> Settle:
    def wake_all(topic: str) -> None:
        pass

    return Settle(OperationContext(store, SystemClock(), random.Random(1), LocalWakeups(wake_all)))


async def claims_of(store: Picky, count: int, **fields: Any) -> list[Claim]:
    await store.submit([one_shot(store.now(), retry=ONCE, **fields) for _ in range(count)])
    return (await store.claim([SlotRequest("w_1", "", count)], 0)).claims


async def test_the_store_writes_all_but_the_one_that_it_cannot_and_ends_that_as_failed(store: Picky) -> None:
    bad, *good = await claims_of(store, 40)
    poison = Failed(Failure(kind="exit", message="poison"))
    settled = await settle_of(store)([settlement(bad, poison), *map(settlement, good)])
    assert [each.status if each is not None else None for each in settled] == [Status.DEAD] + [Status.SUCCEEDED] * 39
    run = (await store.runs([bad.run_id]))[bad.run_id]
    assert run.failure is not None
    assert run.failure.message == "its outcome could not be written: ValueError: odd text"
    assert len(store.batches) < 20, "it is found by halves"


async def test_a_success_whose_result_cannot_be_written_stays_a_success(store: Picky) -> None:
    (claim,) = await claims_of(store, 1)
    (settled,) = await settle_of(store)([settlement(claim, Succeeded(Raw(b'"poison"')))])
    assert settled is not None
    assert settled.status is Status.SUCCEEDED
    assert (await store.runs([claim.run_id]))[claim.run_id].result is None


async def test_only_the_call_whose_end_can_never_be_written_raises(store: Picky) -> None:
    first, second = await claims_of(store, 2)
    store.unwritable = b"failed"
    settle = settle_of(store)
    bad, good = await asyncio.gather(
        settle([settlement(first, Failed(Failure(kind="exit", message="m")))]),
        settle([settlement(second)]),
        return_exceptions=True,
    )
    assert isinstance(bad, ValueError)
    assert not isinstance(good, BaseException)
    assert good[0] is not None


async def test_a_store_that_is_away_splits_nothing(store: Picky) -> None:
    claims = await claims_of(store, 4)
    store.down = True
    with pytest.raises(Unavailable):
        await settle_of(store)([settlement(each) for each in claims])
    assert store.batches == [4]
