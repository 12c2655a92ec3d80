"""Requests are built from the arguments of a method, without sending anything."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import timeball
from tests.support.stub_server import StubServer
from timeball.client.job_document import amendment, document
from timeball.client.models.job import JobOptions
from timeball.client.requests import dead_letters as dead_letter_requests
from timeball.client.requests import jobs as job_requests
from timeball.client.requests import registry as registry_requests
from timeball.client.requests import runs as run_requests
from timeball.client.requests import schedules as schedule_requests
from timeball.domain.errors import Invalid


@pytest.mark.parametrize(
    ("options", "job"),
    [
        ({"shell": "echo hi"}, {"task": {"kind": "shell", "command": "echo hi"}}),
        ({"shell": ("echo", "hi")}, {"task": {"kind": "shell", "command": ["echo", "hi"]}}),
        ({"http": "https://x"}, {"task": {"kind": "http", "url": "https://x"}}),
        ({"script": "a.py"}, {"task": {"kind": "script", "script": "a.py"}}),
        ({"python": "a.b"}, {"task": {"kind": "python", "function": "a.b"}}),
        ({"task_id": "backup"}, {"taskId": "backup"}),
        ({"task": {"kind": "shell", "command": "x"}}, {"task": {"kind": "shell", "command": "x"}}),
        (
            {"cron": "0 2 * * *", "timezone": "Europe/Berlin", "dst_gap": "skip"},
            {"schedule": {"type": "cron", "expression": "0 2 * * *", "timezone": "Europe/Berlin", "dstGap": "skip"}},
        ),
        ({"every": "15m"}, {"schedule": {"type": "interval", "expression": "15m"}}),
        ({"every": timedelta(minutes=90)}, {"schedule": {"type": "interval", "expression": "1h30m"}}),
        ({"every": 30}, {"schedule": {"type": "interval", "expression": 30}}),
        (
            {"at": datetime(2026, 3, 1, 2, tzinfo=UTC)},
            {"schedule": {"type": "date", "expression": "2026-03-01T02:00:00Z"}},
        ),
        ({"schedule": {"type": "immediate"}}, {"schedule": {"type": "immediate"}}),
        ({"max_retries": 0}, {"retry": {"maxRetries": 0}}),
        ({"retry": {"backoff": "fixed"}, "max_retries": 2}, {"retry": {"backoff": "fixed", "maxRetries": 2}}),
        ({"timeout": timedelta(seconds=90), "grace": "1s"}, {"timeout": "1m30s", "grace": "1s"}),
        ({"catch_up": "last", "catch_up_window": "2h"}, {"catchUp": "last", "catchUpWindow": "2h"}),
        (
            {"start_at": datetime(2026, 3, 1, 2, tzinfo=UTC), "end_at": "2027-01-01T00:00:00Z", "max_runs": 3},
            {"startAt": "2026-03-01T02:00:00Z", "endAt": "2027-01-01T00:00:00Z", "maxRuns": 3},
        ),
        ({"jitter": timedelta(seconds=30), "start_deadline": "1h"}, {"jitter": "30s", "startDeadline": "1h"}),
        (
            {"ordering_key": "k", "on_failure": "continue", "overlap": "skip", "delivery": "at_most_once"},
            {"orderingKey": "k", "onFailure": "continue", "overlap": "skip", "delivery": "at_most_once"},
        ),
        (
            {"concurrency": {"key": "db", "limit": 5}, "rate_limit": {"key": "m", "limit": 1, "per": "1m"}},
            {"concurrency": {"key": "db", "limit": 5}, "rateLimit": {"key": "m", "limit": 1, "per": "1m"}},
        ),
        (
            {"resources": {"cpu": 2, "memoryMb": 512}, "runs_on": ("gpu",)},
            {"resources": {"cpu": 2, "memoryMb": 512}, "runsOn": ["gpu"]},
        ),
        ({"tags": ("a", "b"), "user_id": "u"}, {"tags": ["a", "b"], "userId": "u"}),
        ({"parameters": {}}, {"parameters": {}}),
        ({"timeout": None}, {}),
    ],
)
def test_options_become_the_canonical_job_and_nothing_else(options: Any, job: dict[str, Any]) -> None:
    assert document(options) == job


def test_in_an_update_none_takes_a_rule_away() -> None:
    changes: JobOptions = {"timeout": None, "concurrency": None, "runs_on": None, "end_at": None, "overlap": "allow"}
    assert amendment(changes) == {
        "timeout": None,
        "concurrency": None,
        "runsOn": None,
        "endAt": None,
        "overlap": "allow",
    }


def test_a_decorated_function_is_a_task() -> None:
    @timeball.task("tests.client.greet")
    def greet() -> None: ...

    assert document({"task": greet}) == {"task": {"kind": "python", "function": "tests.client.greet"}}
    with pytest.raises(Invalid, match=r"neither the JSON of a task nor a function with @timeball\.task"):
        document({"task": print})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"shell": "x", "http": "y"}, "shell and http both say what to run"),
        ({"cron": "x", "every": "1m"}, "cron and every both say when to run"),
        ({"every": "1m", "timezone": "UTC"}, "timezone applies to cron and window only"),
        ({"at": datetime(2026, 3, 1)}, "2026-03-01T00:00:00 has no time zone"),
        ({"comand": "x"}, "a job has no option comand"),
        ({"max_retry": 1}, "did you mean max_retries?"),
    ],
)
def test_contradictions_are_found_before_anything_is_sent(options: Any, reason: str) -> None:
    with pytest.raises(Invalid, match=reason.replace("?", r"\?")):
        document(options)


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda client: client.jobs(staus="paused"), "jobs have no filter staus; did you mean status?"),
        (lambda client: client.runs(worker="w"), "runs have no filter worker; did you mean worker_id?"),
        (lambda client: client.bulk_jobs("cancel", tag="a", userid="u"), "jobs have no filter userid"),
        (lambda client: client.bulk("cancel", tag="a", job="j"), "runs have no filter job; did you mean job_id?"),
        (lambda client: client.discard_dead(task="t"), "runs have no filter task; did you mean task_id?"),
    ],
)
def test_a_misspelt_filter_selects_nothing(ask: Callable[[Any], object], reason: str) -> None:
    """Without the filter, an action would apply to more jobs or runs than meant."""
    server = StubServer()
    with timeball.Client("http://a:1", "t", transport=server) as client, pytest.raises(Invalid) as refused:
        ask(client)
    assert reason in str(refused.value)
    assert server.seen == []


def test_targets_are_quoted_and_leave_out_what_is_not_said() -> None:
    assert job_requests.job("a/b?c").target == "/v1/jobs/a%2Fb%3Fc"
    assert job_requests.jobs(name="my job", limit=5).target == "/v1/jobs?name=my+job&limit=5"
    assert run_requests.runs().target == "/v1/runs"
    assert run_requests.runs(archived=True, worker_id="w", status=["dead", "failed"], until="2026-03-01").target == (
        "/v1/runs?status=dead&status=failed&workerId=w&endTime=2026-03-01&archived=true"
    )
    since = datetime(2026, 3, 1, tzinfo=UTC)
    assert job_requests.ledger("j", since=since).target == "/v1/jobs/j/ledger?from=2026-03-01T00%3A00%3A00Z"
    assert run_requests.follow("r", cursor="1").target == "/v1/runs/r/logs?follow=1&cursor=1"


def test_only_what_may_happen_twice_is_repeatable() -> None:
    for request in (
        job_requests.job("j"),
        job_requests.create_job({}, "key"),
        job_requests.delete_job("j"),
        job_requests.update_job("j", {}, None),
        run_requests.cancel("r"),
        run_requests.retry("r"),
        dead_letter_requests.retry_dead(["r"], {}),
        dead_letter_requests.retry_dead((), {"everything": True}, dry_run=True),
        dead_letter_requests.discard_dead((), {"everything": True, "created_before": "2026-03-01T00:00:00Z"}),
        run_requests.bulk("replay", {"tag": "a", "created_before": "2026-03-01T00:00:00Z"}),
        job_requests.pause("j", ""),
        schedule_requests.preview_schedule("@daily", timezone=None, count=1, after=None, name=""),
        job_requests.batch([{"shell": "x"}], "key"),
        job_requests.batch([{"shell": "x", "idempotency_key": "k"}], None),
    ):
        assert request.repeatable, request
    for request in (
        job_requests.run_now("j"),
        dead_letter_requests.retry_dead((), {"everything": True}),
        run_requests.retry("r", {"timeout": 1}),
        run_requests.replay("r"),
        run_requests.bulk("replay", {"tag": "a"}),
        registry_requests.create_key("worker", ""),
        job_requests.update_job("j", {}, 3),
        job_requests.batch([{"shell": "x"}], None),
    ):
        assert not request.repeatable, request


def test_a_pause_may_have_a_reason_and_an_end() -> None:
    assert job_requests.pause("j", "").body is None
    assert job_requests.pause("j", "", datetime(2026, 3, 1, tzinfo=UTC)).body == {"until": "2026-03-01T00:00:00Z"}
    assert job_requests.pause("j", "a", "2026-03-01T00:00:00Z").body == {"reason": "a", "until": "2026-03-01T00:00:00Z"}


def test_runs_are_meant_by_what_is_said_of_them() -> None:
    since = datetime(2026, 3, 1, tzinfo=UTC)
    assert dead_letter_requests.retry_dead(["r"], {}).body == {"runIds": ["r"]}
    assert dead_letter_requests.retry_dead((), {}).body == {}
    assert dead_letter_requests.retry_dead((), {"everything": True}).body == {"filter": {"all": True}}
    assert dead_letter_requests.discard_dead((), {"job_id": "j", "tag": None}, dry_run=True).body == {
        "filter": {"jobId": "j"},
        "dryRun": True,
    }
    assert dead_letter_requests.retry_dead(
        (), {"fingerprint": "f", "created_before": since}, edit={"timeout": 1}
    ).body == {
        "filter": {"fingerprint": "f", "createdBefore": "2026-03-01T00:00:00Z"},
        "edit": {"timeout": 1},
    }
    assert run_requests.bulk("retry", {"status": ["failed", "dead"], "since": since, "user_id": "u"}).body == {
        "action": "retry",
        "filter": {"status": ["failed", "dead"], "startTime": "2026-03-01T00:00:00Z", "userId": "u"},
    }
    assert dead_letter_requests.dead_groups({"task_id": "t"}).target == "/v1/dead-letters/groups?taskId=t"


def test_an_edit_is_sent_where_there_is_one() -> None:
    for build in (run_requests.retry, run_requests.replay):
        assert build("r").body is None
        assert build("r", {"parameters": {"a": 1}}).body == {"edit": {"parameters": {"a": 1}}}


def test_a_preview_is_of_an_expression_or_of_a_whole_schedule() -> None:
    since = datetime(2026, 3, 1, tzinfo=UTC)
    short = schedule_requests.preview_schedule("H 2 * * *", timezone="Europe/Berlin", count=3, after=since, name="etl")
    zoned = {"expression": "H 2 * * *", "timezone": "Europe/Berlin"}
    assert short.body == {**zoned, "count": 3, "after": "2026-03-01T00:00:00Z", "name": "etl"}
    hourly = {"type": "interval", "expression": "1h"}
    whole = schedule_requests.preview_schedule(hourly, timezone=None, count=10, after=None, name="")
    assert whole.body == {"schedule": hourly, "count": 10}
