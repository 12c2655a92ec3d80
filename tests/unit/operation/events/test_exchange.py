"""Messages between servers: small and rare, sent only while another server has listeners, and only for their
tenants."""

import itertools
import json

import msgspec

from tests.unit.operation.events.changes import TIME, Server, batch, change, created, job, last_id, read, types
from timeball.domain.events import EventType
from timeball.domain.instant import SECOND
from timeball.domain.run.status import Status
from timeball.operation.events.exchange import ServerMessage
from timeball.operation.events.hub import ANNOUNCED_FOR, WINDOW
from timeball.ports.store.changes import WorkerChange


def pair() -> tuple[Server, Server]:
    """A server with work, and one whose listeners it knows."""
    work, page = Server(1), Server(2)
    page.listen()
    page.turn()
    page.tell(work)
    return work, page


def test_a_server_sends_nothing_while_no_other_one_has_listeners() -> None:
    server = Server()
    listener = server.listen()
    for number in range(50):
        server.happen(created(job(number)))
    assert len(read(listener)) == 50
    told = [json.loads(message) for message in server.sent]
    assert all(each == {"listening": ["a"]} for each in told), "only that it has listeners itself"
    assert len(told) <= 11, "once in 5 seconds"


def test_a_page_sees_what_another_server_did() -> None:
    work, page = pair()
    assert work.active == [True], "it collects for the other one"
    listener = page.listen()
    work.happen(created(job(1, tags=("x",))), change(1, Status.RUNNING, attempt=1, worker="w_1"))
    work.tell(page)
    page.turn()
    new, run = read(listener)
    assert new["data"] == {"jobId": "j_1", "name": "job 1"}
    assert run["data"] == {
        "runId": "r_1",
        "jobId": "j_1",
        "jobName": "job 1",
        "status": "running",
        "attempt": 1,
        "tags": ["x"],
        "kind": "shell",
        "workerId": "w_1",
    }


def test_a_server_stops_telling_when_the_other_one_is_silent() -> None:
    work, _ = pair()
    work.turn(ANNOUNCED_FOR - 1)
    assert work.hub.is_active
    work.turn(1)
    assert work.active == [True, False]


def test_a_message_is_sent_at_most_once_per_window() -> None:
    work, _ = pair()
    sent_at = []
    for number in range(100):
        before = len(work.sent)
        work.hub.received('{"listening": ["a"]}', work.now, TIME)
        work.hub.collect(batch(created(job(number))))
        work.turn(WINDOW // 10)
        if len(work.sent) > before:
            sent_at.append(work.now)
    assert all(later - earlier >= WINDOW for earlier, later in itertools.pairwise(sent_at))
    assert len(sent_at) >= 9


def test_many_changes_are_told_as_a_summary_that_fits() -> None:
    work, page = pair()
    listener, of_job, of_other = page.listen(), page.listen(job_id="j_3"), page.listen(job_id="j_none")
    runs = [change(number, Status.QUEUED, job_id=f"j_{number % 4}") for number in range(2_000)]
    work.happen(*(created(job(number, tags=("x",), repeats=True)) for number in range(4)), *runs)
    work.tell(page)
    page.turn()
    (event,) = read(listener)
    assert event["type"] == "timeball.runs.changed"
    assert event["data"]["count"] == 2_000
    assert event["data"]["jobs"]["j_3"] == {"queued": 500}
    assert event["data"]["tags"] == {"x": 2_000}
    (event,) = read(of_job)
    assert (event["data"]["count"], event["data"]["statuses"]) == (500, {"queued": 500})
    assert read(of_other) == []


def test_long_names_and_tags_do_not_make_a_message_too_long() -> None:
    work, page = pair()
    listener = page.listen()
    tags = tuple(f"{number:02d}" + "ä" * 98 for number in range(50))
    work.happen(*(created(job(number, tags=tags, name="n" * 200, repeats=True)) for number in range(30)))
    work.happen(*(change(number, Status.RUNNING, job_id="j_1") for number in range(200)))
    work.tell(page)
    page.turn()
    events = read(listener)
    assert sum(event["data"].get("count", 0) for event in events) == 200


def test_no_tenant_gets_changes_of_another_one() -> None:
    """I24."""
    work, page = pair()
    mine, theirs = page.listen("a"), page.listen("b")
    page.turn(5 * SECOND)
    page.tell(work)
    work.happen(created(job(1, tenant="a")), created(job(2, tenant="b")), created(job(3, tenant="c")))
    assert "j_3" not in "".join(work.sent), "no server listens for this tenant"
    work.tell(page)
    page.turn()
    assert [event["data"]["jobId"] for event in read(mine)] == ["j_1"]
    assert [event["data"]["jobId"] for event in read(theirs)] == ["j_2"]
    for number in range(300):
        work.happen(change(number, Status.QUEUED, tenant="b"), change(number, Status.DEAD, tenant="c"))
        work.tell(page)
        page.turn()
        page.tell(work)
    assert read(mine) == [], "not even a summary without names"
    assert {status for event in read(theirs) for status in [event["data"]["status"]]} <= {"queued"}


def test_what_does_not_fit_is_told_later() -> None:
    work, page = pair()
    tenants = [f"tenant {number} " + "x" * 200 for number in range(18)]
    listeners = {tenant: page.listen(tenant) for tenant in tenants}
    page.turn(5 * SECOND)
    page.tell(work)
    work.happen(*(created(job(at, tenant=tenant)) for at, tenant in enumerate(tenants)))
    for _ in range(20):
        work.turn()
        work.tell(page)
        page.turn()
        page.tell(work)
    for tenant, listener in listeners.items():
        (event,) = read(listener)
        told = event["data"].get("name") or event["data"].get("jobEvents")
        assert told in (f"job {tenants.index(tenant)}", {"timeball.job.created": 1})


def test_a_server_with_listeners_of_many_tenants_asks_for_all() -> None:
    work, page = Server(1), Server(2)
    listeners = [page.listen(f"t{number}") for number in range(30)]
    page.turn()
    assert json.loads(page.sent[-1]) == {"listening": ["*"]}
    page.tell(work)
    work.happen(created(job(1, tenant="t7")))
    work.tell(page)
    page.turn()
    assert [len(read(each)) for each in listeners] == [int(number == 7) for number in range(30)]


def test_lost_messages_are_a_reset_at_the_other_server() -> None:
    work, page = pair()
    listener = page.listen()
    work.hub.received(None, work.now, TIME)
    work.turn()
    work.tell(page)
    assert types(listener) == ["reset"]


def test_after_an_outage_in_which_announcements_expired_the_listeners_of_the_other_server_are_reset() -> None:
    """While the connection is down, a server forgets the listeners elsewhere, and collects nothing for them."""
    work, page = Server(1), Server(2)
    work.hub.received(None, work.now, TIME)  # its first connection
    listener = page.listen()
    page.turn()
    page.tell(work)
    work.turn(ANNOUNCED_FOR)
    assert not work.hub.is_active
    work.happen(created(job(1)))
    work.hub.received(None, work.now, TIME)
    page.turn(5 * SECOND)
    page.tell(work)
    work.turn()
    work.tell(page)
    assert types(listener) == ["reset"]


def test_messages_that_this_version_cannot_read_change_nothing() -> None:
    server = Server()
    listener = server.listen()
    unknown = {
        "a": {"changes": [["a new status", "j_1", "r_1", 1, None, None], ["a.new.type", "j_1"]]},
        "b": {"changes": [["dead", "j_2", "r_2", 1, None, None]]},
    }
    for text in ("", "x", "{", "[]", '{"listening": 7}', json.dumps({"news": unknown, "workers": [["new", "w", "n"]]})):
        server.hub.received(text, server.now, TIME)
        server.turn()
    assert read(listener) == []


def test_changes_of_workers_are_told() -> None:
    work, page = pair()
    listener = page.listen()
    work.happen(*(WorkerChange(EventType.WORKER_LOST, f"w_{number}", "x" * 500) for number in range(100)))
    work.tell(page)
    page.turn()
    told = types(listener)
    assert set(told) == {"worker.lost"}
    assert len(told) == 20


def test_what_another_server_told_can_be_resumed() -> None:
    work, page = pair()
    begin = last_id(page.listen())
    work.happen(created(job(1)))
    work.tell(page)
    page.turn()
    assert types(page.listen(last_id=begin)) == ["job.created"]


def test_a_server_without_listeners_keeps_nothing_of_what_it_is_told() -> None:
    work, page = pair()
    work.happen(created(job(1)), WorkerChange(EventType.WORKER_LEFT, "w_1"))
    quiet = Server(3)
    for message in work.sent:
        quiet.hub.received(message, quiet.now, TIME)
    assert quiet.hub.due_in(quiet.now) is None
    assert msgspec.json.decode(work.sent[-1], type=ServerMessage).news.keys() == {"a"}
    work.tell(page)
