"""Both clients: answers as typed values, refusals as errors, and repetition of requests where that does no harm."""

from datetime import UTC, datetime

import pytest

from tests.support.both_clients import pass_the_time
from tests.support.stub_server import StubServer
from timeball import Client
from timeball.client.exchange import Destination
from timeball.client.http_sync import AnswerInterrupted, Unreachable
from timeball.domain import errors
from timeball.domain.errors import Invalid, NotFound, TimeballError, Unavailable, WrongValue

JOB = {"jobId": "j_1", "name": "etl", "status": "scheduled", "nextFireAt": "2026-03-01T02:00:00Z", "someday": 1}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    pass_the_time(monkeypatch, slept)
    return slept


def test_a_job_is_created_and_read(server: StubServer, client: Client) -> None:
    server.on("POST", "/v1/jobs", JOB, status=201)
    job = client.create_job("etl", shell="true", cron="0 2 * * *")
    assert job.job_id == "j_1"
    assert job.next_fire_at == datetime(2026, 3, 1, 2, tzinfo=UTC)
    assert server.last.json == {
        "name": "etl",
        "task": {"kind": "shell", "command": "true"},
        "schedule": {"type": "cron", "expression": "0 2 * * *"},
    }
    assert server.last.headers["Authorization"] == "Bearer secret"
    assert server.last.headers["Idempotency-Key"]


def test_every_job_gets_a_key_of_its_own_unless_it_brings_one(server: StubServer, client: Client) -> None:
    server.on("POST", "/v1/jobs", JOB)
    client.create_job(shell="true")
    client.create_job(shell="true")
    client.create_job(shell="true", idempotency_key="mine")
    first, second, mine = (seen.headers["Idempotency-Key"] for seen in server.seen)
    assert first != second
    assert mine == "mine"
    assert "idempotencyKey" not in server.last.json


def test_a_lost_connection_is_tried_again_with_the_same_key_at_the_next_server(
    server: StubServer, client: Client
) -> None:
    server.fail("POST", "/v1/jobs", AnswerInterrupted("reset"))
    server.on("POST", "/v1/jobs", JOB)
    assert client.create_job(shell="true").job_id == "j_1"
    first, second = server.seen
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    assert (first.server, second.server) == ("http://one", "http://two")


def test_what_could_happen_twice_is_not_repeated_after_it_was_sent(server: StubServer, client: Client) -> None:
    server.fail("POST", "/v1/jobs/j_1/run", AnswerInterrupted("reset"))
    with pytest.raises(Unavailable, match=r"POST /v1/jobs/j_1/run \(reset\); the request may have taken effect"):
        client.run_now("j_1")
    assert len(server.seen) == 1


def test_a_server_that_is_away_is_left_once_however_many_requests_notice() -> None:
    destination = Destination("http://one,http://two", "secret")
    for _ in range(3):
        destination.leave("http://one")
    assert destination.server == "http://two"
    destination.leave("http://two")
    assert destination.server == "http://one"


def test_what_was_never_sent_is_repeated_in_any_case(server: StubServer, client: Client) -> None:
    server.fail("POST", "/v1/jobs/j_1/run", Unreachable("refused"))
    server.on("POST", "/v1/jobs/j_1/run", {"jobId": "j_1", "runId": "r_1", "status": "queued"})
    assert client.run_now("j_1").run_id == "r_1"


def test_patience_ends(server: StubServer, client: Client, no_waiting: list[float]) -> None:
    server.fail("GET", "/v1/jobs/j_1", Unreachable("Connection refused"))
    with pytest.raises(Unavailable, match=r"cannot reach .* \(Connection refused\); start it with `timeball up`"):
        client.job("j_1")
    assert len(server.seen) == 4
    assert no_waiting == [0.1, 0.2, 0.4]


def test_a_503_is_waited_out_as_long_as_the_server_asks(
    server: StubServer, client: Client, no_waiting: list[float]
) -> None:
    server.problem("GET", "/v1/jobs/j_1", 503, "unavailable", "away", headers={"retry-after": "2"})
    server.on("GET", "/v1/jobs/j_1", JOB)
    assert client.job("j_1").name == "etl"
    assert no_waiting == [2.0]


def test_a_503_is_reported_if_it_asks_for_too_much_or_the_request_must_not_be_repeated(
    server: StubServer, client: Client
) -> None:
    server.problem("GET", "/v1/jobs/j_1", 503, "unavailable", "away", headers={"retry-after": "60"})
    with pytest.raises(Unavailable, match="away") as failure:
        client.job("j_1")
    assert failure.value.retry_after == 60
    server.problem("POST", "/v1/jobs/j_1/run", 503, "unavailable", "away")
    with pytest.raises(Unavailable, match="away"):
        client.run_now("j_1")
    assert len(server.seen) == 2


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "unauthorized", errors.Unauthorized),
        (403, "forbidden", errors.Forbidden),
        (404, "not_found", NotFound),
        (409, "conflict", errors.Conflict),
        (412, "precondition_failed", errors.PreconditionFailed),
        (413, "too_large", errors.TooLarge),
        (422, "invalid", Invalid),
        (422, "invalid_schedule", errors.InvalidSchedule),
        (422, "idempotency_mismatch", errors.IdempotencyMismatch),
        (429, "too_many_requests", errors.TooManyRequests),
        (400, "malformed", Invalid),
        (409, "a_newer_code", errors.Conflict),
        (500, "internal", TimeballError),
    ],
)
def test_refusals_become_the_errors_they_were(
    server: StubServer, client: Client, status: int, code: str, kind: type[TimeballError]
) -> None:
    server.problem("GET", "/v1/jobs/j_1", status, code, "there is no job 'j_1'")
    with pytest.raises(TimeballError) as failure:
        client.job("j_1")
    assert type(failure.value) is kind
    assert failure.value.detail == str(failure.value) == "there is no job 'j_1'"


def test_a_refusal_keeps_its_pointers_and_names(server: StubServer, client: Client) -> None:
    wrong = [{"pointer": "/schedule/expression", "detail": "no such month"}]
    server.problem("POST", "/v1/jobs", 422, "invalid_schedule", "bad cron", errors=wrong)
    with pytest.raises(Invalid) as invalid:
        client.create_job(shell="true", cron="0 0 1 13 *")
    assert invalid.value.problems == (WrongValue("/schedule/expression", "no such month"),)
    server.problem("GET", "/v1/runs/r_1", 404, "not_found", "there is no run 'r_1'")
    with pytest.raises(NotFound) as missing:
        client.run("r_1")
    assert (missing.value.what, missing.value.ident) == ("run", "r_1")


def test_an_answer_that_is_not_timeballs_says_so(server: StubServer, client: Client) -> None:
    server.on("GET", "/v1/jobs/j_1", b"<html>", status=404)
    with pytest.raises(NotFound, match="is this Timeball's address"):
        client.job("j_1")
    server.on("GET", "/v1/jobs/j_2", b"<html>")
    with pytest.raises(TimeballError, match="cannot decode"):
        client.job("j_2")


def test_lists_are_fetched_page_by_page_while_iterating(server: StubServer, client: Client) -> None:
    server.on("GET", "/v1/jobs", {"items": [JOB, JOB], "nextCursor": "more"})
    server.on("GET", "/v1/jobs", {"items": [JOB], "nextCursor": None})
    found = client.jobs(tag="etl")
    assert not server.seen
    next(found)
    assert len(server.seen) == 1
    assert len(list(found)) == 2
    assert [seen.query for seen in server.seen] == [{"tag": "etl"}, {"tag": "etl", "cursor": "more"}]


def test_the_ledger_is_put_together_from_its_pages(server: StubServer, client: Client) -> None:
    entry = {"fireTime": "2026-03-01T02:00:00Z", "fireUntil": "2026-03-01T03:00:00Z", "verdict": "missed", "count": 2}
    page = {"due": 3, "counts": {"missed": 2, "on_time": 1}, "items": [entry]}
    server.on("GET", "/v1/jobs/j_1/ledger", {**page, "nextCursor": "more"})
    server.on("GET", "/v1/jobs/j_1/ledger", {**page, "nextCursor": None})
    ledger = client.ledger("j_1", since="2026-03-01T00:00:00Z")
    assert ledger.balanced
    assert len(ledger.items) == 2
    assert ledger.items[0].fire_until == datetime(2026, 3, 1, 3, tzinfo=UTC)
    assert ledger.next_cursor is None


def test_wait_returns_the_ended_run(server: StubServer, client: Client) -> None:
    server.on("GET", "/v1/runs/r_1", {"runId": "r_1", "status": "running", "progress": "50%"})
    server.on("GET", "/v1/runs/r_1", {"runId": "r_1", "status": "dead", "error": {"kind": "exit", "message": "exit 1"}})
    run = client.wait("r_1", timeout=10)
    assert run.done
    assert not run.succeeded
    assert run.error is not None
    assert run.error.message == "exit 1"


def test_wait_gives_up_in_time(server: StubServer, client: Client) -> None:
    server.on("GET", "/v1/runs/r_1", {"runId": "r_1", "status": "running"})
    with pytest.raises(TimeoutError, match="run r_1 is still running after 0 s"):
        client.wait("r_1", timeout=0)


def test_a_batch_answers_item_by_item(server: StubServer, client: Client) -> None:
    refused = {"error": {"code": "invalid", "detail": "no task"}}
    server.on("POST", "/v1/jobs:batch", {"items": [{"jobId": "j_1"}, refused]})
    good, bad = client.batch([{"name": "a", "shell": "true"}, {"name": "b"}])
    assert good.job_id == "j_1"
    assert bad.error is not None
    assert bad.error.detail == "no task"


def test_logs_come_as_text(server: StubServer, client: Client) -> None:
    server.on("GET", "/v1/runs/r_1/logs", b"one\ntwo\xff\n")
    assert client.logs("r_1") == "one\ntwo\ufffd\n"
    assert server.last.headers["Accept"] == "text/plain"


def test_a_run_without_a_result_has_none(server: StubServer, client: Client) -> None:
    server.on("GET", "/v1/runs/r_1/result", {"rows": 3})
    assert client.result("r_1") == {"rows": 3}
    server.on("GET", "/v1/runs/r_2/result", status=204)
    assert client.result("r_2") is None
    server.problem("GET", "/v1/runs/r_3/result", 404, "not_found", "there is no run 'r_3'")
    with pytest.raises(NotFound):
        client.result("r_3")


def test_versions_of_a_job_are_fetched_page_by_page(server: StubServer, client: Client) -> None:
    path = "/v1/jobs/j_1/versions"
    first = {"version": 3, "at": "2026-03-01T00:00:00Z", "by": "ci", "job": {"name": "etl"}}
    server.on("GET", path, {"items": [first], "nextCursor": "2"})
    server.on("GET", path, {"items": [{"version": 1}], "nextCursor": None})
    newest, oldest = client.job_versions("j_1")
    assert (newest.version, newest.by, newest.job, oldest.version, oldest.by) == (3, "ci", {"name": "etl"}, 1, None)
    assert newest.at is not None
    assert server.last.query == {"cursor": "2"}


def test_a_worker_is_drained(server: StubServer, client: Client) -> None:
    server.on("POST", "/v1/workers/w_1/drain", {"workerId": "w_1", "status": "draining"}, status=202)
    answer = client.drain_worker("w_1")
    assert (answer.worker_id, answer.status) == ("w_1", "draining")


def test_the_rest_of_the_methods_reach_their_routes(server: StubServer, client: Client) -> None:
    run = {"runId": "r_1", "jobId": "j_1", "status": "queued"}
    server.on("PATCH", "/v1/jobs/j_1", JOB)
    server.on("DELETE", "/v1/jobs/j_1", {"jobId": "j_1", "status": "cancelled"})
    for action in ("pause", "resume"):
        server.on("POST", f"/v1/jobs/j_1/{action}", JOB)
    server.on("GET", "/v1/jobs/j_1/status", {"jobId": "j_1", "status": "running", "runId": "r_1"})
    server.on("GET", "/v1/jobs/j_1/next", {"items": [{"fireTime": "2026-03-01T02:00:00Z"}]})
    server.on("GET", "/v1/runs", {"items": [run]})
    server.on("POST", "/v1/runs/r_1/cancel", run)
    server.on("POST", "/v1/runs/r_1/retry", run)
    server.on("GET", "/v1/dead-letters", {"items": [run]})
    server.on("POST", "/v1/dead-letters:retry", {"retried": 1, "items": [{"runId": "r_1", "retriedAs": "r_2"}]})
    server.on("POST", "/v1/dead-letters:discard", {"matched": 2, "discarded": 2})
    server.on("GET", "/v1/dead-letters/groups", {"items": [{"fingerprint": "f", "count": 2, "kind": "exit"}]})
    server.on("POST", "/v1/runs/r_1/replay", {"runId": "r_2", "replayOf": "r_1", "status": "queued"})
    server.on("GET", "/v1/runs/r_1/spec", {"runId": "r_1", "edited": True, "spec": {"parameters": {"a": 1}}})
    server.on("POST", "/v1/runs:bulk", {"matched": 3, "createdBefore": "2026-03-01T02:00:00Z"})
    server.on("GET", "/v1/tasks", {"items": [{"taskId": "t", "task": {"kind": "shell"}}]})
    server.on("GET", "/v1/workers", {"items": [{"workerId": "w_1", "slots": 4}]})
    server.on("POST", "/v1/api-keys", {"keyId": "k_1", "role": "worker", "key": "tb_x"}, status=201)

    assert client.update_job("j_1", version=3, timeout="5m").name == "etl"
    assert server.last.headers["If-Match"] == '"3"'
    assert client.delete_job("j_1").status == "cancelled"
    assert client.pause("j_1", "holiday").job_id == client.resume("j_1").job_id == "j_1"
    assert client.status("j_1").run_id == "r_1"
    assert client.next("j_1") == [datetime(2026, 3, 1, 2, tzinfo=UTC)]
    assert [found.run_id for found in client.runs(job_id="j_1", worker_id="w_1")] == ["r_1"]
    assert server.last.query == {"jobId": "j_1", "workerId": "w_1"}
    assert client.cancel("r_1").status == client.retry("r_1").status == "queued"
    assert [found.run_id for found in client.dead_letters()] == ["r_1"]
    assert client.retry_dead(["r_1"]).items[0].retried_as == "r_2"
    assert client.discard_dead(fingerprint="f").discarded == 2
    assert server.last.json == {"filter": {"fingerprint": "f"}}
    assert [group.count for group in client.dead_groups(tag="t")] == [2]
    assert client.replay("r_1", edit={"timeout": 1}).replay_of == "r_1"
    assert client.run_spec("r_1").spec == {"parameters": {"a": 1}}
    assert client.bulk("cancel", tag="t", dry_run=True).created_before == datetime(2026, 3, 1, 2, tzinfo=UTC)
    assert server.last.json == {"action": "cancel", "filter": {"tag": "t"}, "dryRun": True}
    assert next(client.tasks()).task_id == "t"
    assert client.workers()[0].slots == 4
    assert server.last.query == {}
    assert client.workers(gone=True)[0].ended_at is None
    assert server.last.query == {"include": "gone"}
    assert client.create_key("worker").key == "tb_x"


def test_many_jobs_are_changed_by_one_request_after_the_other(server: StubServer, client: Client) -> None:
    at = "2026-03-01T02:00:00Z"
    pages = [
        {"matched": 2, "changed": 2, "skipped": 0, "failed": [], "createdBefore": at, "nextCursor": "j_9"},
        {
            "matched": 1,
            "changed": 0,
            "skipped": 1,
            "failed": [{"jobId": "j_3", "error": {"detail": "no"}}],
            "createdBefore": at,
            "nextCursor": None,
        },
    ]
    for page in ({"matched": 3, "createdBefore": at}, *pages):
        server.on("POST", "/v1/jobs:bulk", page)
    sums: list[int] = []
    done = client.bulk_jobs("run", tag="t", seen=lambda found: sums.append(found.matched))
    assert (done.matched, done.changed, done.skipped) == (3, 2, 1)
    assert [each.job_id for each in done.failed] == ["j_3"]
    assert sums == [2, 3]
    # Runs are requested with the instant of a count, so that a repeated request starts nothing twice.
    where = {"tag": "t", "createdBefore": at}
    assert [each.json for each in server.seen] == [
        {"action": "run", "filter": {"tag": "t"}, "dryRun": True},
        {"action": "run", "filter": where},
        {"action": "run", "filter": where, "cursor": "j_9"},
    ]


def test_statistics_and_the_timeline_are_read(server: StubServer, client: Client) -> None:
    times = {"from": "2026-03-01T01:00:00Z", "to": "2026-03-01T02:00:00Z"}
    totals = {"finished": 3, "succeeded": 2, "lateP50Ms": 1.5, "lateP99Ms": 9.0, "runsPerSecond": 0.1}
    bucket = {"at": times["from"], "finished": 3, "lateP50Ms": None, "lateP99Ms": None}
    stats = {**times, "window": "5m", "bucketSeconds": 5, "buckets": [bucket], "totals": totals}
    server.on("GET", "/v1/stats", {**stats, "now": {"queued": 7}, "workers": {"live": 2}})
    found = client.stats("5m")
    assert server.last.query == {"window": "5m"}
    assert (found.totals.finished, found.totals.late_p99_ms, found.now.queued, found.workers.live) == (3, 9.0, 7, 2)
    assert found.buckets[0].at == datetime(2026, 3, 1, 1, tzinfo=UTC)

    run = {"runId": "r_1", "fireTime": times["from"], "startedAt": None, "endedAt": None, "lateMs": None}
    lane = {"id": "j_1", "name": "etl", "runs": [run], "fires": [times["to"]]}
    server.on("GET", "/v1/timeline", {**times, "now": times["to"], "by": "job", "lanes": [lane], "hiddenLanes": 4})
    timeline = client.timeline(since=datetime(2026, 3, 1, 1, tzinfo=UTC), by="job", tag="t")
    assert server.last.query == {"from": times["from"], "by": "job", "lanes": "30", "tag": "t"}
    assert timeline.lanes[0].runs[0].run_id == "r_1"
    assert timeline.lanes[0].fires == [datetime(2026, 3, 1, 2, tzinfo=UTC)]
    assert timeline.hidden_lanes == 4


def test_registered_tasks_calendars_and_keys(server: StubServer, client: Client) -> None:
    task = {"taskId": "mail", "task": {"kind": "shell", "command": "mail"}, "version": 2}
    server.on("GET", "/v1/tasks/mail", task)
    server.on("PUT", "/v1/tasks/mail", task)
    server.on("DELETE", "/v1/tasks/mail", status=204)
    server.on("GET", "/v1/api-keys", {"items": [{"keyId": "k_1", "role": "worker"}]})
    server.on("DELETE", "/v1/api-keys/k_1", status=204)
    closed = [{"from": "2026-03-01T02:00:00Z", "to": "2026-03-02T02:00:00Z", "entry": 0, "reason": "2026-03-01"}]
    answer = {"from": "2026-03-01T00:00:00Z", "to": "2026-04-01T00:00:00Z", "closed": closed}
    server.on("POST", "/v1/calendars:preview", answer)
    assert client.task("mail").task == task["task"]
    assert client.put_task("mail", {"kind": "shell", "command": "mail"}).version == 2
    assert server.last.json == task["task"]
    client.delete_task("mail")
    assert (server.last.method, server.last.path) == ("DELETE", "/v1/tasks/mail")
    assert [key.key_id for key in client.api_keys()] == ["k_1"]
    client.revoke_key("k_1")
    assert (server.last.method, server.last.path) == ("DELETE", "/v1/api-keys/k_1")
    found = client.preview_calendar([{"dates": ["2026-03-01"]}], since="2026-03-01T00:00:00Z")
    assert server.last.json == {
        "calendar": {"timezone": "UTC", "entries": [{"dates": ["2026-03-01"]}]},
        "from": "2026-03-01T00:00:00Z",
    }
    assert found.closed[0].since == datetime(2026, 3, 1, 2, tzinfo=UTC)
