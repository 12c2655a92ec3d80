"""Waiting for a run: servers may restart during the wait, but a wait does not last for ever."""

import pytest

from tests.support.both_clients import pass_the_time
from tests.support.stub_server import StubServer
from timeball import Client, Unavailable
from timeball.client import retrying, wait
from timeball.client.exchange import MAX_PAUSE, RETRIES, backoff
from timeball.client.http_sync import Unreachable
from timeball.domain.instant import SECOND

RUN = "/v1/runs/r_1"
LIVE = {"runId": "r_1", "status": "running"}
DONE = {"runId": "r_1", "status": "succeeded"}
REFUSED = Unreachable("Connection refused")


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time passes only where somebody sleeps."""
    slept: list[float] = []
    pass_the_time(monkeypatch, slept)
    for module in (retrying, wait):
        monkeypatch.setattr(module, "monotonic", lambda: int(sum(slept) * SECOND))
    return slept


def test_whoever_waits_is_told_how_it_goes_and_looks_less_and_less_often(
    server: StubServer, client: Client, slept: list[float]
) -> None:
    for percent in range(0, 100, 10):
        server.on("GET", RUN, {**LIVE, "progress": f"{percent}%"})
    server.on("GET", RUN, DONE)
    told: list[str] = []
    assert client.wait("r_1", every=0.5, seen=lambda run: told.append(str(run.progress))).succeeded
    assert told == [f"{percent}%" for percent in range(0, 100, 10)]
    assert slept == sorted(slept)
    assert (slept[0], slept[-1]) == (0.05, 0.5)


def test_a_restart_is_waited_out(server: StubServer, client: Client, slept: list[float]) -> None:
    server.on("GET", RUN, LIVE)
    for _ in range(20):
        server.fail("GET", RUN, REFUSED)
    server.on("GET", RUN, LIVE)
    server.problem("GET", RUN, 503, "unavailable", "this server is about to stop", headers={"retry-after": "20"})
    server.on("GET", RUN, DONE)
    assert client.wait("r_1").succeeded
    assert sum(slept) > 3


def test_a_server_that_stays_away_is_given_up_after_a_minute(
    server: StubServer, client: Client, slept: list[float]
) -> None:
    server.on("GET", RUN, LIVE)
    server.fail("GET", RUN, REFUSED)
    with pytest.raises(Unavailable, match="cannot reach Timeball at http://one"):
        client.wait("r_1")
    assert 60 < sum(slept) < 70


def test_minutes_with_an_answer_between_do_not_add_up(server: StubServer, client: Client) -> None:
    for _ in range(5):
        server.on("GET", RUN, LIVE)
        for _ in range(60):
            server.fail("GET", RUN, REFUSED)
    server.on("GET", RUN, DONE)
    assert client.wait("r_1").succeeded


def test_a_server_that_was_never_there_is_told_at_once(server: StubServer, client: Client, slept: list[float]) -> None:
    server.fail("GET", RUN, REFUSED)
    with pytest.raises(Unavailable, match="cannot reach Timeball at http://one"):
        client.wait("r_1")
    assert len(slept) == RETRIES


def test_the_time_also_ends_while_nobody_answers(server: StubServer, client: Client, slept: list[float]) -> None:
    server.on("GET", RUN, LIVE)
    server.fail("GET", RUN, REFUSED)
    with pytest.raises(
        TimeoutError,
        match="no server has answered about run r_1, which was running in the last answer, after 20 s: cannot",
    ):
        client.wait("r_1", timeout=20)
    assert 20 <= sum(slept) < 21


def test_a_server_that_asks_for_more_patience_than_there_is_is_left_for_another(
    server: StubServer, client: Client
) -> None:
    server.on("GET", RUN, LIVE)
    server.problem("GET", RUN, 503, "unavailable", "down for maintenance", headers={"retry-after": "60"})
    server.on("GET", RUN, DONE)
    assert client.wait("r_1").succeeded
    assert [seen.server for seen in server.seen] == ["http://one", "http://one", "http://two"]


def test_pauses_stay_short_however_often_it_fails() -> None:
    assert backoff(100_000) == MAX_PAUSE
