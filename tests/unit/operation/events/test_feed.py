"""The feed of a tenant: event ids, the events of the last minute, resuming, filters and summaries."""

from typing import Any

import pytest

from tests.unit.operation.events.changes import TIME, Server, change, created, job, last_id, read, types
from timeball.domain.instant import SECOND
from timeball.domain.run.status import Status
from timeball.operation.events import feed, window
from timeball.operation.events.feed import RESUME_TIME, RING_TIME
from timeball.operation.events.filters import EventFilter
from timeball.operation.events.window import MAX_SINGLE_EVENTS


def test_events_have_consecutive_ids_of_one_epoch() -> None:
    server = Server()
    listener = server.listen()
    server.happen(created(job(1)), change(1, Status.QUEUED))
    server.happen(change(1, Status.RUNNING), change(1, Status.SUCCEEDED))
    ids = [event["id"] for event in read(listener)]
    assert {each.partition("-")[0] for each in ids} == {ids[0].partition("-")[0]}
    assert [int(each.partition("-")[2]) for each in ids] == [1, 2, 3, 4, 5]


def test_a_listener_resumes_after_any_event() -> None:
    server = Server()
    listener = server.listen()
    for number in range(5):
        server.happen(created(job(number)), change(number, Status.QUEUED))
    events = read(listener)
    for at, event in enumerate(events):
        resumed = server.listen(last_id=event["id"])
        assert [each["id"] for each in read(resumed)] == [each["id"] for each in events[at + 1 :]]


def test_the_first_frame_has_an_id_from_which_a_listener_can_resume() -> None:
    server = Server()
    first = last_id(server.listen())
    server.happen(created(job(1)))
    assert types(server.listen(last_id=first)) == ["job.created"]


def test_a_comment_moves_the_id_of_a_listener_whose_filter_selects_nothing() -> None:
    server = Server()
    listener = server.listen(tag="none")
    begin = last_id(listener)
    server.happen(created(job(1)))
    for _ in range(16):
        server.turn()
    moved = last_id(listener)
    assert moved != begin
    server.happen(created(job(2)))
    assert types(server.listen(last_id=moved)) == ["job.created"]


@pytest.mark.parametrize(
    "unknown", ["x", "-", "-1", "0-1", "a-b-c", "0" * 12 + "-1", "{epoch}-2", "{epoch}--1", "{epoch}-x"]
)
def test_an_id_that_the_ring_does_not_know_gets_a_reset(unknown: str) -> None:
    server = Server()
    listener = server.listen()
    server.happen(created(job(1)))
    epoch = read(listener)[0]["id"].partition("-")[0]
    resumed = server.listen(last_id=unknown.format(epoch=epoch))
    (event,) = read(resumed)
    assert (event["event"], event["frame"]) == ("reset", f"{epoch}-1")


def test_the_ring_keeps_a_minute() -> None:
    server = Server()
    listener = server.listen()
    begin = last_id(listener)
    server.happen(created(job(1)))
    kept = read(listener)[-1]["id"]
    for _ in range(RING_TIME // SECOND - 1):
        server.turn()
    server.happen(created(job(2)))
    assert types(server.listen(last_id=begin)) == ["job.created", "job.created"]
    server.turn()
    server.happen(created(job(3)))
    assert types(server.listen(last_id=begin)) == ["reset"]
    assert types(server.listen(last_id=kept)) == ["job.created", "job.created"]


def test_the_ring_has_a_bounded_number_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MAX_RING_EVENTS", 10)
    server = Server()
    begin = last_id(server.listen())
    for number in range(30):
        server.happen(created(job(number)))
    (own,) = server.hub._feeds.values()
    assert own._ring_size == len(own._ring) == 10
    assert types(server.listen(last_id=begin)) == ["reset"]


def test_resuming_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MAX_RESUMED_EVENTS", 10)
    server = Server()
    begin = last_id(server.listen())
    for number in range(20):
        server.happen(created(job(number)))
    assert types(server.listen(last_id=begin)) == ["reset"]


def test_a_feed_without_listeners_is_kept_for_a_while_and_then_forgotten() -> None:
    server = Server()
    listener = server.listen()
    begin = last_id(listener)
    server.hub.unsubscribe(listener, server.now)
    server.happen(created(job(1)))
    resumed = server.listen(last_id=begin)
    assert types(resumed) == ["job.created"]
    server.hub.unsubscribe(resumed, server.now)
    server.turn(RESUME_TIME)
    assert not server.hub.is_active
    assert types(server.listen(last_id=begin)) == ["reset"]


def test_many_changes_of_a_window_become_one_summary() -> None:
    server = Server()
    listener, of_job, of_tag = server.listen(), server.listen(job_id="j_7"), server.listen(tag="even")
    begin = last_id(listener)
    count = MAX_SINGLE_EVENTS + 50
    jobs = [job(number, tags=("even",) if number % 2 == 0 else ()) for number in range(count)]
    server.happen(*map(created, jobs), *(change(number, Status.QUEUED) for number in range(count)))
    (event,) = read(listener)
    assert event["type"] == "timeball.runs.changed"
    data = event["data"]
    assert (data["count"], data["statuses"]) == (count, {"queued": count})
    assert data["jobEvents"] == {"timeball.job.created": count}
    assert (len(data["jobs"]), data["jobsTruncated"], len(data["runs"])) == (50, True, 50)
    assert data["tags"] == {"even": count // 2}
    assert types(of_job) == ["job.created", "run.queued"], "a filter gets its few changes one by one"
    (event,) = read(of_tag)
    assert (event["data"]["count"], event["data"]["statuses"]) == (count // 2, {"queued": count // 2})
    (resumed,) = read(server.listen(last_id=begin))
    assert resumed["data"] == data
    assert len(read(server.listen(last_id=begin, job_id="j_7"))) == 1, "the summary, because it may contain the job"
    assert read(server.listen(last_id=begin, statuses=frozenset({Status.DEAD}))) == []


def test_filters_combine() -> None:
    server = Server()
    one, two = job(1, tags=("x",), repeats=True), job(2, tags=("x", "y"), repeats=True)
    listeners = {
        "x and running": server.listen(tag="x", statuses=frozenset({Status.RUNNING})),
        "y": server.listen(tag="y"),
        "job 2 and dead": server.listen(job_id="j_2", statuses=frozenset({Status.DEAD})),
        "run 1": server.listen(run_id="r_1"),
        "run 1 of job 2": server.listen(run_id="r_1", job_id="j_2"),
        "shell": server.listen(kind="shell"),
        "http": server.listen(kind="http"),
        "ended": server.listen(statuses=frozenset({Status.DEAD, Status.SUCCEEDED})),
    }
    server.happen(
        created(one),
        created(two),
        change(1, Status.RUNNING),
        change(2, Status.RUNNING),
        change(1, Status.SUCCEEDED),
        change(2, Status.DEAD),
    )
    got = {
        name: [event["data"].get("runId", event["data"].get("jobId")) for event in read(each)]
        for name, each in listeners.items()
    }
    assert got == {
        "x and running": ["r_1", "r_2"],
        "y": ["j_2", "r_2", "r_2"],
        "job 2 and dead": ["r_2"],
        "run 1": ["r_1", "r_1"],
        "run 1 of job 2": [],
        "shell": ["j_1", "j_2", "r_1", "r_2", "r_1", "r_2"],
        "http": [],
        "ended": ["r_1", "r_2"],
    }


def test_a_window_is_encoded_once_for_all_listeners_with_the_same_filter() -> None:
    server = Server()
    listeners = [server.listen() for _ in range(3)]
    for listener in listeners:
        listener._chunks.clear()
    server.happen(created(job(1)))
    chunks = {id(chunk) for listener in listeners for chunk in listener._chunks}
    assert len(chunks) == 1


def test_a_reset_makes_earlier_ids_unknown() -> None:
    server = Server()
    listener = server.listen()
    begin = last_id(listener)
    server.hub.received(None, server.now, TIME)
    assert types(listener) == ["reset"]
    assert types(server.listen(last_id=begin)) == ["reset"]


def test_the_work_of_filters_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many filters as there may be listeners, each of which selects almost everything."""
    looked_at = 0
    passes = EventFilter.passes

    def counted(where: EventFilter, *given: Any) -> bool:
        nonlocal looked_at
        looked_at += 1
        return passes(where, *given)

    monkeypatch.setattr(EventFilter, "passes", counted)
    server = Server()
    statuses = list(Status)
    listeners = [
        server.listen(statuses=frozenset(each for at, each in enumerate(statuses) if number >> at & 1 or at == 2))
        for number in range(1_000)
    ]
    server.happen(
        created(job(1, tags=("x",), repeats=True)), *(change(n, Status.QUEUED, job_id="j_1") for n in range(400))
    )
    assert looked_at <= window.MAX_FILTERED
    for listener in listeners:
        (event,) = read(listener)
        assert event["data"]["statuses"]["queued"] == 400
