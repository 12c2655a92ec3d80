"""Following a log: each line comes once, also if connections break, servers restart or attempts begin again."""

import json
from typing import Any

import pytest

from tests.support.both_clients import pass_the_time
from tests.support.stub_server import StubServer
from timeball import Client, NotFound, Unavailable
from timeball.client import retrying
from timeball.client.http_sync import AnswerInterrupted, Unreachable
from timeball.client.log_tail import Lines
from timeball.client.models.logs import LogChunk
from timeball.domain.errors import TimeballError
from timeball.domain.instant import SECOND

RUN = "/v1/runs/r_1"
LOGS = "/v1/runs/r_1/logs"
LIVE = {"runId": "r_1", "status": "running"}
DONE = {"runId": "r_1", "status": "succeeded"}
CUT = AnswerInterrupted("Connection reset by peer")


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time passes only where somebody sleeps."""
    slept: list[float] = []
    pass_the_time(monkeypatch, slept)
    monkeypatch.setattr(retrying, "monotonic", lambda: int(sum(slept) * SECOND))
    return slept


def chunk(seq: int, text: str, attempt: int = 1, at: int = 0, stream: str = "stdout") -> dict[str, Any]:
    return {"attempt": attempt, "seq": seq, "stream": stream, "at": f"2026-03-01T02:00:{at:02}Z", "text": text}


def records(*chunks: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in chunks)


def page(*chunks: dict[str, Any]) -> dict[str, Any]:
    return {"items": list(chunks), "nextCursor": None}


def followed(client: Client) -> list[str]:
    return [line.text for line in client.follow_logs("r_1")]


def streams(server: StubServer) -> list[str | None]:
    """Where each stream began."""
    return [seen.query.get("cursor") for seen in server.seen if "follow" in seen.query]


def test_a_run_that_has_ended_is_told_in_two_requests(server: StubServer, client: Client) -> None:
    server.on("GET", RUN, DONE)
    server.on("GET", LOGS, records(chunk(0, "one\ntwo\n")))
    [one, two] = client.follow_logs("r_1", attempt=1)
    assert (one.text, one.attempt, one.stream, two.text) == ("one", 1, "stdout", "two")
    assert [seen.path for seen in server.seen] == [RUN, LOGS]
    assert server.last.query == {"attempt": "1", "follow": "1"}
    assert server.last.headers["Accept"] == "application/x-ndjson"


def test_a_live_run_is_followed_until_a_stream_that_began_after_its_end(server: StubServer, client: Client) -> None:
    """The first stream may have ended because its server stops, and the run after that."""
    server.on("GET", RUN, LIVE)
    server.on("GET", RUN, DONE)
    server.on("GET", LOGS, records(chunk(0, "one\n")))
    server.on("GET", LOGS, page(chunk(0, "one\n")))
    server.on("GET", LOGS, records(chunk(1, "two\n")))
    assert followed(client) == ["one", "two"]
    assert streams(server) == [None, "1000000"]


def test_a_stream_that_is_cut_goes_on_behind_its_last_whole_chunk(
    server: StubServer, client: Client, slept: list[float]
) -> None:
    one, two, three = chunk(0, "one\n"), chunk(1, "two\n"), chunk(2, "three\n")
    server.on("GET", RUN, LIVE)
    server.on("GET", RUN, DONE)
    server.cut("GET", LOGS, records(one, two) + records(three)[:-9], CUT)
    server.on("GET", LOGS, page(two))
    server.on("GET", LOGS, records(three))
    assert followed(client) == ["one", "two", "three"]
    check, again = server.seen[-2:]
    assert check.query == {"limit": "1", "cursor": "1000000"}
    assert again.query == {"follow": "1", "cursor": "1000001"}
    assert again.server == "http://two"
    assert slept[0] == 0.1


def test_an_attempt_that_was_given_back_and_begins_anew_is_told_from_its_beginning(
    server: StubServer, client: Client
) -> None:
    server.on("GET", RUN, LIVE)
    server.on("GET", RUN, DONE)
    server.cut("GET", LOGS, records(chunk(0, "one\n", attempt=2), chunk(1, "tw", attempt=2)), CUT)
    server.on("GET", LOGS, page(chunk(1, "tw", attempt=2, at=9)))
    server.on("GET", LOGS, records(chunk(0, "one\n", attempt=2, at=8), chunk(1, "two\n", attempt=2, at=9)))
    assert followed(client) == ["one", "tw", "one", "two"]
    assert streams(server) == [None, "1999999"]


def test_what_was_forgotten_before_anything_new_was_printed_is_noticed_too(server: StubServer, client: Client) -> None:
    server.on("GET", RUN, LIVE)
    server.on("GET", RUN, DONE)
    server.cut("GET", LOGS, records(chunk(0, "one\n")), CUT)
    server.on("GET", LOGS, page())
    server.cut("GET", LOGS, b"", CUT)
    server.on("GET", LOGS, records(chunk(0, "anew\n", at=7)))
    assert followed(client) == ["one", "anew"]
    assert streams(server) == [None, "999999", "999999"]


def test_a_stream_that_ends_within_a_chunk_is_not_the_end(server: StubServer, client: Client) -> None:
    server.on("GET", RUN, DONE)
    server.on("GET", LOGS, records(chunk(0, "one\n"))[:20])
    server.on("GET", LOGS, records(chunk(0, "one\n")))
    assert followed(client) == ["one"]


def test_a_server_that_restarts_is_waited_for(server: StubServer, client: Client, slept: list[float]) -> None:
    server.on("GET", RUN, LIVE)
    server.cut("GET", LOGS, b"", CUT)
    for _ in range(40):
        server.fail("GET", RUN, Unreachable("Connection refused"))
    server.on("GET", RUN, DONE)
    server.on("GET", LOGS, records(chunk(0, "one\n")))
    assert followed(client) == ["one"]
    assert sum(slept) > 10
    assert max(slept) == 1.0


def test_a_server_that_stays_away_is_given_up(server: StubServer, client: Client, slept: list[float]) -> None:
    server.on("GET", RUN, LIVE)
    server.cut("GET", LOGS, records(chunk(0, "one\n")), CUT)
    server.fail("GET", RUN, Unreachable("Connection refused"))
    lines = client.follow_logs("r_1")
    assert next(lines).text == "one"
    with pytest.raises(Unavailable, match="cannot reach Timeball"):
        next(lines)
    assert 60 < sum(slept) < 65


def test_a_sign_of_life_renews_the_patience(server: StubServer, client: Client, slept: list[float]) -> None:
    for _ in range(3):
        server.on("GET", RUN, LIVE)
        server.cut("GET", LOGS, b"", CUT)
        for _ in range(80):
            server.fail("GET", RUN, Unreachable("Connection refused"))
    server.on("GET", RUN, DONE)
    server.on("GET", LOGS, records(chunk(0, "one\n")))
    assert followed(client) == ["one"]
    assert sum(slept) > 70


def test_streams_that_bring_nothing_are_begun_less_and_less_often(
    server: StubServer, client: Client, slept: list[float]
) -> None:
    server.on("GET", RUN, LIVE)
    for _ in range(8):
        server.cut("GET", LOGS, b"", CUT)
    server.cut("GET", LOGS, records(chunk(0, "one\n")), CUT)
    server.problem("GET", LOGS, 404, "not_found", "there is no run 'r_1'")
    assert followed(client) == ["one"]
    assert slept == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0, 0.1, 0.0]


def test_a_slow_reader_does_not_use_up_the_patience(server: StubServer, client: Client, slept: list[float]) -> None:
    server.on("GET", RUN, LIVE)
    server.on("GET", RUN, DONE)
    server.cut("GET", LOGS, records(chunk(0, "one\n")), CUT)
    server.on("GET", LOGS, page(chunk(0, "one\n")))
    server.on("GET", LOGS, records(chunk(1, "two\n")))
    lines = client.follow_logs("r_1")
    assert next(lines).text == "one"
    slept.append(3600)
    assert [line.text for line in lines] == ["two"]


def test_a_server_that_was_never_there_is_given_up_soon(server: StubServer, client: Client, slept: list[float]) -> None:
    server.fail("GET", RUN, Unreachable("Connection refused"))
    with pytest.raises(Unavailable, match="cannot reach Timeball"):
        followed(client)
    assert sum(slept) < 1


def test_a_503_is_waited_out(server: StubServer, client: Client) -> None:
    server.on("GET", RUN, LIVE)
    server.on("GET", RUN, DONE)
    server.problem("GET", LOGS, 503, "unavailable", "away", headers={"retry-after": "2"})
    server.on("GET", LOGS, records(chunk(0, "one\n")))
    assert followed(client) == ["one"]


def test_a_run_that_is_not_there_is_an_error_and_one_that_is_dropped_an_end(server: StubServer, client: Client) -> None:
    server.on("GET", RUN, LIVE)
    server.on("GET", LOGS, b"")
    server.problem("GET", RUN, 404, "not_found", "there is no run 'r_1'")
    assert followed(client) == []
    with pytest.raises(NotFound):
        followed(client)


def test_an_answer_that_is_not_timeballs_says_so(server: StubServer, client: Client) -> None:
    server.on("GET", RUN, LIVE)
    server.on("GET", LOGS, b"<html>\n")
    with pytest.raises(TimeballError, match="cannot decode"):
        followed(client)


def test_output_comes_as_it_was_printed(server: StubServer, client: Client) -> None:
    server.on("GET", RUN, DONE)
    server.on("GET", LOGS, records(chunk(0, "50%\r"), chunk(1, "100%"), chunk(2, "\nlast", stream="stderr")))
    assert [each.text for each in client.follow_output("r_1")] == ["50%\r", "100%", "\nlast"]


# --- lines ------------------------------------------------------------------------------------------------------------


def lines(*chunks: LogChunk) -> list[tuple[str, str]]:
    lines = Lines()
    found = [line for each in chunks for line in lines.add(each)]
    return [(line.stream, line.text) for line in [*found, *lines.remaining()]]


def out(seq: int, text: str, stream: str = "stdout", attempt: int = 1) -> LogChunk:
    return LogChunk(attempt=attempt, seq=seq, stream=stream, text=text)


def test_lines_are_put_together_for_each_stream_apart() -> None:
    found = lines(out(0, "a\nb"), out(1, "oops", "stderr"), out(2, "b"), out(3, "b\n\nc\n"), out(4, "!\n", "stderr"))
    assert found == [("stdout", "a"), ("stdout", "bbb"), ("stdout", ""), ("stdout", "c"), ("stderr", "oops!")]


def test_a_line_without_an_end_is_told_at_the_end() -> None:
    assert lines(out(0, "a\nb")) == [("stdout", "a"), ("stdout", "b")]


@pytest.mark.parametrize("then", [out(0, "new\n", attempt=2), out(0, "new\n")], ids=["next", "anew"])
def test_a_line_does_not_go_on_in_another_try(then: LogChunk) -> None:
    assert lines(out(0, "a"), out(1, "b"), then) == [("stdout", "ab"), ("stdout", "new")]


def test_a_line_does_not_go_on_behind_what_was_dropped() -> None:
    found = lines(out(0, "begun"), out(1, "\n[9 bytes dropped]\n", "system"), out(2, "rest\n"))
    assert found == [("stdout", "begun"), ("system", ""), ("system", "[9 bytes dropped]"), ("stdout", "rest")]
