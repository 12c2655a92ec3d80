"""The hub of events: it collects only while a client listens, publishes in windows, and all its work is bounded."""

import asyncio

import pytest

from tests.unit.operation.events.changes import Server, batch, change, created, job, read, types
from timeball.domain.errors import TooManyRequests, Unavailable
from timeball.domain.events import EventType
from timeball.domain.run.status import Status
from timeball.operation.events import collector, hub, listener
from timeball.operation.events.feed import RESUME_TIME
from timeball.operation.events.hub import WINDOW
from timeball.ports.store.changes import WorkerChange


def test_nothing_is_collected_without_a_listener() -> None:
    server = Server()
    server.hub.collect(batch(created(job(1))))
    assert (server.hub._collector.is_empty, server.wakes, server.active) == (True, 0, [])


def test_collecting_starts_with_the_first_listener_and_ends_after_the_last() -> None:
    server = Server()
    first, second = server.listen(), server.listen("b")
    assert server.active == [True]
    server.hub.unsubscribe(first, server.now)
    server.turn(RESUME_TIME)
    assert server.hub.is_active
    server.hub.unsubscribe(second, server.now)
    server.turn(RESUME_TIME - 1)
    assert server.hub.is_active
    server.turn(1)
    assert server.active == [True, False]
    assert server.hub.count == 0


def test_the_first_change_is_published_at_once_and_the_next_ones_after_a_window() -> None:
    server = Server()
    server.listen()
    server.turn()
    server.hub.collect(batch(created(job(1))))
    assert server.hub.due_in(server.now) == 0
    server.turn(0)
    server.hub.collect(batch(created(job(2))))
    server.hub.collect(batch(created(job(3))))
    assert server.hub.due_in(server.now) == WINDOW
    assert server.hub.due_in(server.now + WINDOW) == 0


def test_the_publisher_is_woken_once_per_window() -> None:
    server = Server()
    server.listen()
    server.turn()
    before = server.wakes
    for number in range(10):
        server.hub.collect(batch(created(job(number))))
    assert server.wakes == before + 1
    server.turn()
    server.hub.collect(batch(created(job(11))))
    assert server.wakes == before + 2


def test_a_listener_that_does_not_read_is_dropped() -> None:
    """I28: what waits for it is bounded."""
    server = Server()
    slow, reader = server.listen(), server.listen()
    dropped: list[bool] = []
    slow.on_slow = lambda: dropped.append(True)
    for number in range(listener.MAX_BACKLOG_CHUNKS + 1):
        server.happen(created(job(number)))
        assert len(read(reader)) == 1
        assert slow._size <= listener.MAX_BACKLOG_BYTES
    assert dropped == [True]
    assert (slow.is_closed, slow._chunks, reader.is_closed) == (True, [], False)


def test_a_backlog_is_bounded_in_bytes() -> None:
    server = Server()
    slow = server.listen()
    name = "x" * 200
    for number in range(1_000):
        jobs = [created(job(number * 100 + each, name=name)) for each in range(90)]
        server.happen(*jobs)
        assert slow._size <= listener.MAX_BACKLOG_BYTES
    assert slow.is_closed


def test_too_many_changes_in_a_window_are_dropped_with_a_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MAX_COLLECTED", 10)
    server = Server()
    listener_ = server.listen()
    for number in range(11):
        server.hub.collect(batch(created(job(number))))
    assert server.hub._collector._count == 0
    server.hub.collect(batch(created(job(12))))
    server.turn()
    assert types(listener_) == ["job.created", "reset"]


def test_listeners_are_bounded_per_key_and_per_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "MAX_LISTENERS_PER_KEY", 2)
    monkeypatch.setattr(hub, "MAX_LISTENERS", 3)
    server = Server()
    first = [server.listen(), server.listen()]
    with pytest.raises(TooManyRequests):
        server.hub.check_room("k_1")
    server.hub.check_room("k_2")
    monkeypatch.setattr(hub, "MAX_LISTENERS_PER_KEY", 5)
    server.listen()
    with pytest.raises(Unavailable):
        server.hub.check_room("k_2")
    server.hub.unsubscribe(first[0], server.now)
    server.hub.check_room("k_2")


def test_changes_of_a_tenant_without_listeners_are_dropped() -> None:
    """I24."""
    server = Server()
    mine = server.listen("a")
    server.happen(created(job(1, tenant="b")), change(1, Status.QUEUED, tenant="b"), created(job(2)))
    assert [event["data"]["jobId"] for event in read(mine)] == ["j_2"]


def test_changes_of_workers_pass_only_an_empty_filter() -> None:
    server = Server()
    every, filtered, other = server.listen(), server.listen(kind="shell"), server.listen("b")
    server.happen(WorkerChange(EventType.WORKER_REGISTERED, "w_1", "rack 3"))
    (event,) = read(every)
    assert (event["subject"], event["data"]) == ("workers/w_1", {"workerId": "w_1", "name": "rack 3"})
    assert read(filtered) == []
    assert types(other) == ["worker.registered"], "every tenant sees all workers, as in GET /v1/workers"


async def test_a_stopping_server_ends_all_streams() -> None:
    server = Server()
    listener_ = server.listen()
    server.happen(created(job(1)))
    server.hub.close()
    assert b"job.created" in await listener_.take()
    async with asyncio.timeout(60):
        assert await listener_.take() == b""
        assert await listener_.take() == b""
