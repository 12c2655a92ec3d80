"""Reading events: none is lost while a server keeps them, also if connections break or servers restart."""

import json
from itertools import islice

import pytest

from tests.support.both_clients import pass_the_time
from tests.support.stub_server import StubServer
from timeball import Client, Unavailable
from timeball.client import retrying
from timeball.client.event_tail import EventTail
from timeball.client.http_sync import AnswerInterrupted, Unreachable
from timeball.client.requests import events as requests
from timeball.domain.errors import Unauthorized
from timeball.domain.instant import SECOND

EVENTS = "/v1/events"
CUT = AnswerInterrupted("Connection reset by peer")


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time passes only where somebody sleeps."""
    slept: list[float] = []
    pass_the_time(monkeypatch, slept)
    monkeypatch.setattr(retrying, "monotonic", lambda: int(sum(slept) * SECOND))
    return slept


def frame(number: int) -> bytes:
    event = {
        "specversion": "1.0",
        "id": f"e-{number}",
        "source": "/v1",
        "type": "timeball.run.succeeded",
        "subject": f"runs/r_{number}",
        "time": "2026-03-01T02:00:00Z",
        "data": {"runId": f"r_{number}", "status": "succeeded"},
    }
    return f"id: e-{number}\nevent: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def last_ids(server: StubServer) -> list[str]:
    """What each stream was resumed with."""
    return [seen.headers.get("Last-Event-ID", "") for seen in server.seen]


def test_events_are_completed_in_whatever_pieces_they_arrive() -> None:
    whole = frame(1) + b": alive\nid: e-1\n\n" + frame(2) + frame(3)
    for size in (1, 7, 100, len(whole)):
        tail = EventTail(requests.events())
        found = [event.id for at in range(0, len(whole), size) for event in tail.received(whole[at : at + size])]
        assert found == ["e-1", "e-2", "e-3"]
        assert tail.stream().headers["Last-Event-ID"] == "e-3"


def test_events_are_read_with_their_filters(server: StubServer, client: Client) -> None:
    whole = b"retry: 1000\n\n: alive\nid: e-0\n\n" + frame(1) + b": alive\nid: e-1\n\n" + frame(2)
    server.on("GET", EVENTS, whole)
    one, two = islice(client.events(tag="x", status="succeeded,dead"), 2)
    assert (one.id, one.type, one.subject, one.data["runId"]) == ("e-1", "timeball.run.succeeded", "runs/r_1", "r_1")
    assert two.id == "e-2"
    assert server.seen[0].query == {"tag": "x", "status": "succeeded,dead"}
    assert last_ids(server) == [""]


def test_a_stream_that_ended_or_broke_is_resumed(server: StubServer, client: Client) -> None:
    server.on("GET", EVENTS, frame(1))
    server.cut("GET", EVENTS, frame(2) + b"id: e-3\nevent: x\ndata: {", CUT)
    server.on("GET", EVENTS, b": alive\nid: e-5\n\n")
    server.on("GET", EVENTS, frame(6))
    assert [event.id for event in islice(client.events(), 3)] == ["e-1", "e-2", "e-6"]
    assert last_ids(server) == ["", "e-1", "e-2", "e-5"]


def test_a_reset_is_an_event(server: StubServer, client: Client) -> None:
    server.on("GET", EVENTS, b"id: f-7\nevent: reset\ndata: {}\n\n")
    server.on("GET", EVENTS, frame(1))
    reset, _ = islice(client.events(last_event_id="old-1"), 2)
    assert (reset.is_reset, reset.id, reset.data) == (True, "f-7", {})
    assert last_ids(server) == ["old-1", "f-7"]


def test_a_server_that_was_never_there_is_not_waited_for(server: StubServer, client: Client) -> None:
    server.fail("GET", EVENTS, Unreachable("connection refused"))
    with pytest.raises(Unavailable):
        next(iter(client.events()))


def test_a_key_that_was_revoked_is_not_tried_again(server: StubServer, client: Client) -> None:
    server.on("GET", EVENTS, frame(1))
    server.problem("GET", EVENTS, 401, "unauthorized", "this API key is unknown")
    events = iter(client.events())
    assert next(events).id == "e-1"
    with pytest.raises(Unauthorized):
        next(events)
