"""Commands against a stub server: what they send, what they print, and how they exit."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.stub_server import StubServer
from timeball.cli import session
from timeball.cli.root import timeball
from timeball.client.http_sync import Unreachable

JOB_ID = "j_0194f3a1c2b79f86d081884c7d65"
RUN_ID = "r_0194f3a1c2b79f86d081884c7d65"
JOB = {
    "jobId": JOB_ID,
    "name": "etl",
    "status": "scheduled",
    "version": 4,
    "nextFireAt": "2026-03-01T02:00:00Z",
    "schedule": {"type": "cron", "expression": "0 2 * * *", "timezone": "Europe/Berlin"},
    "task": {"kind": "shell", "command": ["python3", "etl.py"]},
    "parameters": {"days": 30},
    "retry": {"maxRetries": 3},
    "tags": ["etl"],
}
RUN = {
    "runId": RUN_ID,
    "jobId": JOB_ID,
    "jobName": "etl",
    "status": "succeeded",
    "fireTime": "2026-03-01T02:00:00Z",
    "startTime": "2026-03-01T02:00:00.010Z",
    "endTime": "2026-03-01T02:00:05.010Z",
    "attempt": 1,
}

Timeball = Callable[..., Result]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> StubServer:
    server = StubServer()
    monkeypatch.setattr(session, "make_transport", lambda: server)
    monkeypatch.setattr("timeball.client.client.time.sleep", lambda seconds: None)
    monkeypatch.setattr("timeball.cli.waiting.time.sleep", lambda seconds: None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return server


@pytest.fixture
def run(server: StubServer) -> Timeball:
    def run(*arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(timeball, arguments, input=stdin, prog_name="timeball")

    return run


def test_create_sends_what_was_said_and_prints_the_id(server: StubServer, run: Timeball) -> None:
    server.on("POST", "/v1/jobs", JOB, status=201)
    result = run(
        *("jobs", "create", "etl", "--shell", "python3 etl.py", "--cron", "0 2 * * *", "--tz", "Europe/Berlin"),
        *("--param", "days=30", "--param", "who=me", "--param", 'id="42"', "--priority", "7", "--timeout", "30m"),
        *("--retries", "0", "--overlap", "skip", "--catch-up", "last", "--tag", "a", "--tag", "b"),
        *("--env", "HOME=/tmp", "--idempotency-key", "mine"),
    )
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{JOB_ID}\n"
    assert server.last.headers["Idempotency-Key"] == "mine"
    assert server.last.json == {
        "name": "etl",
        "task": {"kind": "shell", "command": "python3 etl.py", "env": {"HOME": "/tmp"}},
        "schedule": {"type": "cron", "expression": "0 2 * * *", "timezone": "Europe/Berlin"},
        "parameters": {"days": 30, "who": "me", "id": "42"},
        "priority": 7,
        "timeout": "30m",
        "retry": {"maxRetries": 0},
        "overlap": "skip",
        "catchUp": "last",
        "tags": ["a", "b"],
    }


def test_the_rules_of_a_schedule_can_be_said_and_taken_back(server: StubServer, run: Timeball) -> None:
    server.on("POST", "/v1/jobs", JOB, status=201)
    result = run(
        *("jobs", "create", "sale", "--shell", "true", "--every", "1h", "--start-at", "2026-11-27"),
        *("--end-at", "2026-11-28T12:00:00+01:00", "--max-runs", "24", "--jitter", "30s", "--start-deadline", "5m"),
    )
    assert result.exit_code == 0, result.output
    rules = {name: server.last.json[name] for name in ("startAt", "endAt", "maxRuns", "jitter", "startDeadline")}
    assert rules == {
        "startAt": "2026-11-27T00:00:00Z",
        "endAt": "2026-11-28T11:00:00Z",
        "maxRuns": 24,
        "jitter": "30s",
        "startDeadline": "5m",
    }
    server.on("PATCH", f"/v1/jobs/{JOB_ID}", JOB)
    assert run("jobs", "update", JOB_ID, "--end-at", "none", "--max-runs", "none").exit_code == 0
    assert server.last.json == {"endAt": None, "maxRuns": None}
    assert "--max-runs: 'many' is not a whole number" in run("jobs", "update", JOB_ID, "--max-runs", "many").stderr


def test_the_rules_of_order_can_be_said(server: StubServer, run: Timeball) -> None:
    server.on("POST", "/v1/jobs", JOB, status=201)
    result = run(
        *("jobs", "create", "sync", "--http", "https://x", "--no-breaker", "--overlap", "queue_one"),
        *("--ordering-key", "customer=7", "--on-failure", "continue", "--concurrency", "db=main=5"),
        *("--rate-limit", "mails=100/m,burst=10", "--cpu", "0.5", "--memory", "1.5G", "--slots", "2"),
        *("--runs-on", "gpu", "--runs-on", "zone=a", "--delivery", "at_most_once"),
    )
    assert result.exit_code == 0, result.output
    assert server.last.json == {
        "name": "sync",
        "task": {"kind": "http", "url": "https://x", "breaker": False},
        "overlap": "queue_one",
        "orderingKey": "customer=7",
        "onFailure": "continue",
        "concurrency": {"key": "db=main", "limit": 5},
        "rateLimit": {"key": "mails", "limit": 100, "per": "1m", "burst": 10},
        "resources": {"cpu": 0.5, "memoryMb": 1536, "slots": 2},
        "runsOn": ["gpu", "zone=a"],
        "delivery": "at_most_once",
    }


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        (("--timeout", "none", "--ordering-key", "none"), {"timeout": None, "orderingKey": None}),
        (("--concurrency", "none", "--rate-limit", "none"), {"concurrency": None, "rateLimit": None}),
        (("--runs-on", "none"), {"runsOn": None}),
        (("--rate-limit", "mails=5/1s"), {"rateLimit": {"key": "mails", "limit": 5, "per": "1s"}}),
        (("--cpu", "4"), {"resources": {"cpu": 4.0, "memoryMb": 512}}),
        (("--memory", "none"), {"resources": {"cpu": 2}}),
        (("--memory", "none", "--cpu", "none"), {"resources": None}),
        (("--memory", "none", "--cpu", "none", "--slots", "3"), {"resources": {"slots": 3}}),
    ],
)
def test_rules_are_changed_one_by_one_and_taken_back(
    server: StubServer, run: Timeball, options: tuple[str, ...], sent: dict[str, Any]
) -> None:
    server.on("GET", f"/v1/jobs/{JOB_ID}", {**JOB, "resources": {"cpu": 2, "memoryMb": 512}})
    server.on("PATCH", f"/v1/jobs/{JOB_ID}", JOB)
    result = run("jobs", "update", JOB_ID, *options)
    assert result.exit_code == 0, result.output
    assert server.last.json == sent


def test_none_takes_back_what_a_file_says(server: StubServer, run: Timeball) -> None:
    server.on("POST", "/v1/jobs", JOB, status=201)
    job = {"taskId": "t", "runsOn": ["gpu"], "resources": {"cpu": 1}}
    assert run("jobs", "create", "--file", "-", "--runs-on", "none", stdin=json.dumps(job)).exit_code == 0
    assert server.last.json == {"taskId": "t", "resources": {"cpu": 1}}


def test_a_job_is_shown_with_the_rules_it_uses(server: StubServer, run: Timeball) -> None:
    rules = {
        "overlap": "cancel_previous",
        "orderingKey": "customer-7",
        "onFailure": "block",
        "concurrency": {"key": "db", "limit": 5},
        "rateLimit": {"key": "mails", "limit": 100, "per": "1m"},
        "resources": {"cpu": 0.5, "memoryMb": 512},
        "runsOn": ["gpu", "linux"],
        "delivery": "at_most_once",
    }
    server.on("GET", f"/v1/jobs/{JOB_ID}", {**JOB, **rules})
    server.on("GET", f"/v1/jobs/{JOB_ID}/status", {"jobId": JOB_ID, "status": "scheduled", "runId": None})
    server.on("GET", f"/v1/jobs/{JOB_ID}/next", {"items": []})
    lines = run("jobs", "show", JOB_ID).stdout.splitlines()
    for line in (
        "overlap\tcancel_previous: a fire cancels the live run",
        "in order of\tcustomer-7",
        "on failure\tblock: after a run used up its retries, later runs wait until it is retried or discarded",
        "concurrency\tat most 5 runs at the same time with key db",
        "rate limit\t100 starts in 1m, 100 at once, with key mails",
        "takes\t0.5 CPU, 512 MiB",
        "runs on\tworkers with gpu and linux",
        "delivery\tat most once: a run is never repeated after it has started",
    ):
        assert line in lines


def test_a_blocked_run_says_what_it_waits_for(server: StubServer, run: Timeball) -> None:
    held = ["overlap", "turn", "gate:host:example.com:443"]
    words = "an earlier run (overlap) and its turn and host example.com:443"
    blocked = {**RUN, "status": "blocked", "blockedBy": held, "startBy": "2026-03-01T02:05:00Z"}
    server.on("GET", "/v1/runs", {"items": [blocked]})
    server.on("GET", f"/v1/runs/{RUN_ID}", blocked)
    assert run("runs", "list").stdout.endswith(f"\twaits for {words}\n")
    shown = run("runs", "show", RUN_ID).stdout
    assert f"waits for\t{words}\n" in shown
    assert "start by\t2026-03-01T02:05:00Z\n" in shown


def test_a_run_that_is_being_cancelled_says_why(server: StubServer, run: Timeball) -> None:
    asked = {"cancelRequestedAt": "2026-03-01T02:00:02Z", "cancelReason": "run r_2 replaced this run"}
    stopping = {**RUN, **asked, "status": "running", "endTime": None}
    server.on("GET", "/v1/runs", {"items": [stopping]})
    server.on("GET", f"/v1/runs/{RUN_ID}", stopping)
    assert run("runs", "list").stdout.endswith("\tbeing cancelled: run r_2 replaced this run\n")
    assert "because\trun r_2 replaced this run\n" in run("runs", "show", RUN_ID).stdout


def test_a_pause_ends_at_a_time_or_after_a_while(server: StubServer, run: Timeball) -> None:
    server.on("POST", f"/v1/jobs/{JOB_ID}/pause", {**JOB, "status": "paused"})
    assert run("jobs", "pause", JOB_ID, "--until", "2099-03-01T02:00:00+01:00").exit_code == 0
    assert server.last.json == {"until": "2099-03-01T01:00:00Z"}
    server.on("POST", f"/v1/jobs/{JOB_ID}/pause", {**JOB, "status": "paused"})
    assert run("jobs", "pause", JOB_ID, "--reason", "move", "--until", "2h").exit_code == 0
    end = datetime.fromisoformat(server.last.json["until"])
    assert timedelta(hours=1, minutes=59) < end - datetime.now(UTC) <= timedelta(hours=2)


@pytest.mark.parametrize(
    ("options", "task"),
    [
        (
            ("--http", "https://x", "--method", "put", "--header", "A: b:c", "--body", '{"a": 1}'),
            {"kind": "http", "url": "https://x", "method": "PUT", "headers": {"A": "b:c"}, "body": {"a": 1}},
        ),
        (("--http", "https://x", "--body", "12"), {"kind": "http", "url": "https://x", "body": "12"}),
        (("--script", "a.py"), {"kind": "script", "script": "a.py"}),
        (("--python", "reports.nightly"), {"kind": "python", "function": "reports.nightly"}),
    ],
)
def test_every_kind_of_task_can_be_said(
    server: StubServer, run: Timeball, options: tuple[str, ...], task: dict[str, Any]
) -> None:
    server.on("POST", "/v1/jobs", JOB)
    assert run("jobs", "create", *options).exit_code == 0
    assert server.last.json == {"task": task}


def test_a_file_is_the_job_and_options_win(server: StubServer, run: Timeball, tmp_path: Path) -> None:
    server.on("POST", "/v1/jobs", JOB)
    job = {"name": "old", "taskId": "t", "parameters": {"a": 1, "b": 2}, "scheduleType": "immediate"}
    (tmp_path / "job.json").write_text(json.dumps(job))
    assert run("jobs", "create", "new", "--file", "job.json", "--shell", "x", "--param", "b=3").exit_code == 0
    assert server.last.json == {
        "name": "new",
        "task": {"kind": "shell", "command": "x"},
        "parameters": {"a": 1, "b": 3},
        "scheduleType": "immediate",
    }
    assert run("jobs", "create", "--file", "-", stdin=json.dumps(job)).exit_code == 0
    assert server.last.json == job
    assert run("jobs", "create", "--file", "gone.json").exit_code == 2
    bad = run("jobs", "create", "--file", "-", stdin="[]")
    assert bad.exit_code == 2
    assert "standard input is not a JSON object" in bad.stderr


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--shell", "x", "--http", "y"), "--shell and --http both say what to run"),
        (("--shell", "x", "--task-id", "y"), "both say what to run"),
        (("--shell", "x", "--cron", "* * * * *", "--every", "1m"), "both say when to run"),
        (("--shell", "x", "--tz", "UTC"), "timezone applies to cron and window only"),
        (("--shell", "x", "--param", "days"), "--param 'days' is not NAME=VALUE"),
        (("--shell", "x", "--method", "GET"), "--method is valid only with --http"),
        (("--shell", "x", "--header", "A: b"), "--header is valid only with --http"),
        (("--http", "x", "--header", "nothing"), "--header 'nothing' is not 'NAME: VALUE'"),
        (("--shell", "x", "--no-breaker"), "--no-breaker is valid only with --http"),
        (("--shell", "x", "--overlap", "never"), "--overlap 'never' is not one of allow, skip, queue, queue_one, "),
        (("--shell", "x", "--ordering-key", ""), "--ordering-key is empty"),
        (("--shell", "x", "--on-failure", "wait"), "--on-failure 'wait' is not one of block, continue"),
        (("--shell", "x", "--concurrency", "5"), "--concurrency '5' is not KEY=LIMIT, such as db=5"),
        (("--shell", "x", "--concurrency", "db=0"), "--concurrency db=0: 0 is too small; the minimum is 1"),
        (("--shell", "x", "--concurrency", "db=many"), "--concurrency db=many: 'many' is not a whole number"),
        (("--shell", "x", "--rate-limit", "mails=5"), "--rate-limit mails=5 is not KEY=N/TIME[,burst=M]"),
        (("--shell", "x", "--rate-limit", "mails=5/0s"), "--rate-limit mails=5/0s: "),
        (("--shell", "x", "--rate-limit", "mails=5/1s,burst=x"), "'x' is not a whole number"),
        (("--shell", "x", "--cpu", "-1"), "--cpu '-1' is not a number of CPUs"),
        (("--shell", "x", "--cpu", "nan"), "--cpu 'nan' is not a number of CPUs"),
        (("--shell", "x", "--memory", "2 parsecs"), "--memory '2 parsecs' is not a size; write 512 (MiB), 512M or 2G"),
        (("--shell", "x", "--slots", "0"), "--slots: 0 is too small; the minimum is 1"),
        (("--shell", "x", "--runs-on", "a b"), "--runs-on 'a b' is not a label"),
        (
            ("--shell", "x", "--delivery", "at_most"),
            "--delivery 'at_most' is not one of at_least_once, at_most_once; did you mean 'at_most_once'?",
        ),
        (("--shell", "x", "--at", "tomorrow"), "'tomorrow' is not a time; write it like"),
    ],
)
def test_contradictions_are_refused_before_anything_is_sent(
    server: StubServer, run: Timeball, options: tuple[str, ...], reason: str
) -> None:
    result = run("jobs", "create", "x", *options)
    assert result.exit_code == 2
    assert reason in result.stderr
    assert not server.seen


def test_create_and_wait_exits_as_the_run_ends(server: StubServer, run: Timeball) -> None:
    server.on("POST", "/v1/jobs", JOB)
    server.on("GET", f"/v1/jobs/{JOB_ID}/status", {"jobId": JOB_ID, "status": "scheduled", "runId": None})
    server.on("GET", f"/v1/jobs/{JOB_ID}/status", {"jobId": JOB_ID, "status": "running", "runId": RUN_ID})
    server.on("GET", f"/v1/runs/{RUN_ID}", {**RUN, "status": "running"})
    server.on("GET", f"/v1/runs/{RUN_ID}", RUN)
    result = run("jobs", "create", "x", "--shell", "true", "--wait")
    assert result.exit_code == 0
    assert result.stdout == f"{RUN_ID}\tsucceeded\n"


def test_wait_exits_with_one_unless_it_succeeded(server: StubServer, run: Timeball) -> None:
    server.on("GET", f"/v1/runs/{RUN_ID}", {**RUN, "status": "dead", "error": {"kind": "exit", "message": "exit 1"}})
    result = run("runs", "wait", RUN_ID, "-o", "table")
    assert result.exit_code == 1
    assert f"{RUN_ID} dead: exit 1" in result.stdout


def test_wait_gives_up_with_its_own_code(server: StubServer, run: Timeball) -> None:
    server.on("GET", f"/v1/runs/{RUN_ID}", {**RUN, "status": "running"})
    result = run("runs", "wait", RUN_ID, "--timeout", "0")
    assert result.exit_code == 124
    assert "is still running after 0 s" in result.stderr


def test_a_list_in_a_pipe_is_tab_separated_with_exact_times(server: StubServer, run: Timeball) -> None:
    server.on("GET", "/v1/jobs", {"items": [{**JOB, "name": "a\tb\x1b[31m"}], "nextCursor": "more"})
    result = run("jobs", "list", "--status", "scheduled", "--limit", "1")
    assert result.stdout.splitlines() == [
        "NAME\tID\tSTATUS\tSCHEDULE\tNEXT FIRE\tTAGS",
        f"a b\ufffd[31m\t{JOB_ID}\tscheduled\t0 2 * * * (Europe/Berlin)\t2026-03-01T02:00:00Z\tetl",
    ]
    assert server.last.query == {"status": "scheduled", "limit": "1"}


def test_a_list_on_a_terminal_is_a_table_with_relative_times(
    server: StubServer, run: Timeball, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    server.on("GET", "/v1/jobs", {"items": [JOB], "nextCursor": "more"})
    result = run("jobs", "list", "-o", "table")
    assert "\t" not in result.stdout
    assert " ago" in result.stdout or "in " in result.stdout
    assert "2026-03-01T02:00:00Z" not in result.stdout
    assert "There are more items: raise --limit, or add --all." in result.stderr


def test_json_is_what_the_api_answered(server: StubServer, run: Timeball) -> None:
    page = {"items": [JOB], "nextCursor": "more"}
    server.on("GET", "/v1/jobs", page)
    assert json.loads(run("jobs", "list", "-o", "json").stdout) == page
    server.on("GET", f"/v1/jobs/{JOB_ID}", b'{"jobId":"x",  "new":1}')
    assert run("jobs", "show", JOB_ID, "-o", "json").stdout == '{"jobId":"x",  "new":1}\n'


def test_all_pages_are_one_document(server: StubServer, run: Timeball) -> None:
    server.on("GET", "/v1/runs", {"items": [RUN], "nextCursor": "more"})
    server.on("GET", "/v1/runs", {"items": [RUN], "nextCursor": None})
    assert json.loads(run("runs", "list", "--all", "-o", "json").stdout) == {"items": [RUN, RUN], "nextCursor": None}
    server.on("GET", "/v1/runs", {"items": [RUN], "nextCursor": None})


def test_a_name_means_the_job_that_is_still_to_run(server: StubServer, run: Timeball) -> None:
    server.on("GET", "/v1/jobs", {"items": [{**JOB, "jobId": "j_old", "status": "cancelled"}, JOB]})
    server.on("POST", f"/v1/jobs/{JOB_ID}/pause", {**JOB, "status": "paused"})
    assert run("jobs", "pause", "etl", "--reason", "holiday").stdout == f"{JOB_ID}\n"
    assert server.seen[0].query["name"] == "etl"
    assert server.last.json == {"reason": "holiday"}


def test_a_name_of_ended_jobs_means_the_newest_one(server: StubServer, run: Timeball) -> None:
    ended = [{**JOB, "status": "completed"}, {**JOB, "jobId": "j_old", "status": "cancelled"}]
    server.on("GET", "/v1/jobs", {"items": ended})
    server.on("GET", f"/v1/jobs/{JOB_ID}", ended[0])
    assert run("jobs", "show", "etl", "-o", "json").exit_code == 0


def test_an_ambiguous_name_is_refused_with_the_candidates(server: StubServer, run: Timeball) -> None:
    server.on("GET", "/v1/jobs", {"items": [JOB, {**JOB, "jobId": "j_other", "status": "paused"}]})
    result = run("jobs", "resume", "etl")
    assert result.exit_code == 6
    assert f"2 jobs have the name 'etl': {JOB_ID} (scheduled), j_other (paused); use the id" in result.stderr


def test_an_unknown_name_is_refused_with_a_suggestion(server: StubServer, run: Timeball) -> None:
    server.on("GET", "/v1/jobs", {"items": []})
    server.on("GET", "/v1/jobs", {"items": [JOB]})
    result = run("jobs", "show", "elt")
    assert result.exit_code == 4
    assert "there is no job 'elt'; did you mean 'etl'?" in result.stderr


def test_show_tells_everything_but_what_is_empty(server: StubServer, run: Timeball) -> None:
    server.on("GET", f"/v1/jobs/{JOB_ID}", JOB)
    server.on("GET", f"/v1/jobs/{JOB_ID}/status", {"jobId": JOB_ID, "status": "running", "runId": RUN_ID})
    server.on(
        "GET", f"/v1/jobs/{JOB_ID}/next", {"items": [{"fireTime": f"2026-03-0{day}T02:00:00Z"} for day in (1, 2)]}
    )
    lines = dict(line.split("\t") for line in run("jobs", "show", JOB_ID).stdout.splitlines())
    assert lines["runs"] == "shell: python3 etl.py"
    assert lines["parameters"] == '{"days":30}'
    assert lines["schedule"] == "0 2 * * * (Europe/Berlin)"
    assert lines["next"] == "2026-03-01T02:00:00Z"
    assert lines["then"] == "2026-03-02T02:00:00Z"
    assert lines["last run"] == f"{RUN_ID} running"
    assert "description" not in lines


def test_an_update_leaves_alone_what_it_does_not_name(server: StubServer, run: Timeball) -> None:
    server.on("GET", f"/v1/jobs/{JOB_ID}", JOB)
    server.on("PATCH", f"/v1/jobs/{JOB_ID}", JOB)
    assert run("jobs", "update", JOB_ID, "--timeout", "1h").exit_code == 0
    assert server.last.json == {"timeout": "1h"}
    assert "If-Match" not in server.last.headers
    assert run("jobs", "update", JOB_ID, "--cron", "0 3 * * *").exit_code == 0
    assert server.last.json == {"schedule": {"type": "cron", "expression": "0 3 * * *", "timezone": "Europe/Berlin"}}
    assert server.last.headers["If-Match"] == '"4"'
    assert run("jobs", "update", JOB_ID, "--tz", "UTC", "--param", "who=me").exit_code == 0
    assert server.last.json == {
        "schedule": {"type": "cron", "expression": "0 2 * * *", "timezone": "UTC"},
        "parameters": {"days": 30, "who": "me"},
    }
    nothing = run("jobs", "update", JOB_ID)
    assert nothing.exit_code == 2
    assert "nothing to change" in nothing.stderr


def test_run_and_delete(server: StubServer, run: Timeball) -> None:
    blocked = {"jobId": JOB_ID, "runId": RUN_ID, "status": "blocked", "detail": "busy"}
    server.on("POST", f"/v1/jobs/{JOB_ID}/run", blocked)
    server.on("DELETE", f"/v1/jobs/{JOB_ID}", {"jobId": JOB_ID, "status": "cancelled"})
    assert run("jobs", "run", JOB_ID).stdout == f"{RUN_ID}\n"
    assert run("jobs", "run", JOB_ID, "-o", "table").stdout == f"Run {RUN_ID} is blocked: busy.\n"
    assert run("jobs", "delete", JOB_ID).stdout == f"{JOB_ID}\n"


def test_runs_are_listed_for_a_job_and_a_window(server: StubServer, run: Timeball) -> None:
    server.on("GET", "/v1/runs", {"items": [RUN]})
    result = run("runs", "list", "--job", JOB_ID, "--from", "2026-03-01", "--status", "failed,dead")
    assert result.stdout.splitlines()[1].split("\t")[:5] == [RUN_ID, "etl", "succeeded", "2026-03-01T02:00:00Z", "5 s"]
    assert server.last.query == {
        "jobId": JOB_ID,
        "status": "failed,dead",
        "startTime": "2026-03-01T00:00:00Z",
        "limit": "50",
    }


def test_archived_runs_are_looked_for_until_some_are_found(server: StubServer, run: Timeball) -> None:
    for _ in range(2):
        server.on("GET", "/v1/runs", {"items": [], "nextCursor": f"{RUN_ID}~"})
        server.on("GET", "/v1/runs", {"items": [{**RUN, "archived": True}], "nextCursor": RUN_ID})
    assert run("runs", "list", "--archived", "--job", JOB_ID).stdout.splitlines()[1].startswith(RUN_ID)
    assert server.last.query == {"jobId": JOB_ID, "archived": "true", "limit": "50", "cursor": f"{RUN_ID}~"}
    found = json.loads(run("runs", "list", "--archived", "-o", "json").stdout)
    assert ([each["runId"] for each in found["items"]], found["nextCursor"]) == ([RUN_ID], RUN_ID)
    assert len(server.seen) == 4


def test_a_run_is_shown_with_its_attempts(server: StubServer, run: Timeball) -> None:
    attempt = {"attempt": 1, "executorId": "w", "error": {"kind": "exit", "message": "exit code 1"}, "endTime": None}
    server.on("GET", f"/v1/runs/{RUN_ID}", {**RUN, "lateMs": 10.0, "attempts": [attempt]})
    out = run("runs", "show", RUN_ID).stdout
    assert "late\t10 ms\n" in out
    assert "attempt 1\texit code 1 (on w)\n" in out
    ended = {**attempt, "startTime": "2026-03-01T02:00:00Z", "endTime": "2026-03-01T02:00:03Z"}
    for _ in range(2):
        server.on("GET", f"/v1/runs/{RUN_ID}", {**RUN, "attempts": [ended]})
    out = [run("runs", "show", RUN_ID).stdout for _ in range(2)][-1]
    assert "attempt 1\texit code 1 (on w, started 2026-03-01T02:00:00Z, took 3 s)\n" in out


def test_logs_are_printed_byte_by_byte(server: StubServer, run: Timeball) -> None:
    server.on("GET", f"/v1/runs/{RUN_ID}/logs", b"caf\xc3\xa9\xff\n")
    assert run("runs", "logs", RUN_ID).stdout_bytes == b"caf\xc3\xa9\xff\n"


def test_logs_are_followed_for_a_run_or_a_job(server: StubServer, run: Timeball) -> None:
    at = "2026-03-01T02:00:00Z"
    chunks = [{"attempt": 1, "seq": seq, "stream": "stdout", "at": at, "text": text} for seq, text in enumerate("a\né")]
    server.on("GET", f"/v1/runs/{RUN_ID}", RUN)
    server.on("GET", f"/v1/runs/{RUN_ID}/logs", b"".join(json.dumps(chunk).encode() + b"\n" for chunk in chunks))
    server.on("GET", f"/v1/jobs/{JOB_ID}/status", {"jobId": JOB_ID, "status": "running", "runId": RUN_ID})
    assert run("runs", "logs", RUN_ID, "-f").stdout_bytes == run("runs", "logs", JOB_ID, "-f").stdout_bytes
    assert run("runs", "logs", RUN_ID, "-f").stdout_bytes == "a\né".encode()
    lines = run("runs", "logs", RUN_ID, "-f", "-o", "json", "--attempt", "1").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"attempt": 1, "stream": "stdout", "at": at, "text": text} for text in ("a", "é")
    ]
    assert server.last.query == {"attempt": "1", "follow": "1"}


def test_events_are_printed_as_they_come(server: StubServer, run: Timeball) -> None:
    """A line each for people, a JSON object each in a pipe, until the key is refused."""
    one = {"runId": RUN_ID, "jobId": JOB_ID, "jobName": "nightly", "status": "running", "attempt": 2}
    many = {"count": 3, "statuses": {"queued": 2, "dead": 1}}
    told = [
        {"type": "timeball.run.started", "subject": f"runs/{RUN_ID}", "data": one},
        {"type": "timeball.run.progress", "subject": f"runs/{RUN_ID}", "data": one | {"progress": 0.25, "note": "x"}},
        {"type": "timeball.runs.changed", "subject": None, "data": many},
        {"type": "timeball.worker.left", "subject": "workers/w_1", "data": {"workerId": "w_1", "name": "rack 3"}},
    ]
    events = [each | {"id": f"e-{at}", "time": "2026-03-01T02:00:00.5Z"} for at, each in enumerate(told)]
    frames = "".join(f"id: {each['id']}\nevent: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)
    lines = {}
    for form in ("table", "plain", "json"):
        server.on("GET", "/v1/events", f"{frames}id: e-9\nevent: reset\ndata: {{}}\n\n".encode())
        server.problem("GET", "/v1/events", 401, "unauthorized", "this API key is unknown")
        result = run("events", "--tag", "db", "--status", "dead", "--after", "e-0", "-o", form)
        assert result.exit_code != 0
        lines[form] = result.stdout.splitlines()
        server._answers.clear()
    assert lines["table"] == [
        f"02:00:00.500  run.started  nightly  {RUN_ID}  attempt 2",
        f"02:00:00.500  run.progress  nightly  {RUN_ID}  25%  x",
        "02:00:00.500  runs.changed  2 queued, 1 dead",
        "02:00:00.500  worker.left  rack 3  w_1",
        "events were lost",
    ]
    assert lines["plain"] == lines["json"]
    assert [json.loads(line)["type"] for line in lines["json"]] == [*(each["type"] for each in told), "reset"]
    assert server.seen[0].query == {"tag": "db", "status": "dead"}
    assert server.seen[0].headers["Last-Event-ID"] == "e-0"


def test_cancel_and_retry(server: StubServer, run: Timeball) -> None:
    asked = {**RUN, "status": "running", "cancelRequestedAt": "2026-03-01T02:00:01Z"}
    server.on("POST", f"/v1/runs/{RUN_ID}/cancel", asked)
    server.on("POST", f"/v1/runs/{RUN_ID}/retry", {**RUN, "runId": "r_new", "status": "queued"})
    assert (
        run("runs", "cancel", RUN_ID, "-o", "table").stdout == f"Run {RUN_ID} is running and has been asked to stop.\n"
    )
    assert run("runs", "retry", RUN_ID).stdout == "r_new\n"


def test_dead_letters_are_listed_and_retried(server: StubServer, run: Timeball) -> None:
    dead = {**RUN, "status": "dead", "error": {"kind": "exit", "message": "exit code 1"}}
    server.on("GET", "/v1/dead-letters", {"items": [dead]})
    assert "\texit code 1" in run("dead", "list").stdout
    items = [{"runId": RUN_ID, "retriedAs": "r_new"}, {"runId": "r_2", "error": {"detail": "retried already"}}]
    server.on("POST", "/v1/dead-letters:retry", {"matched": 2, "retried": 1, "skipped": 1, "items": items})
    result = run("dead", "retry", RUN_ID, "r_2")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1:] == [f"{RUN_ID}\tr_new\t-", "r_2\t-\tretried already"]
    assert server.last.json == {"runIds": [RUN_ID, "r_2"]}
    result = run("dead", "retry", "--all")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == ["matched\t2", "retried\t1", "skipped\t1"]
    assert result.stderr == "  r_2: retried already\n"
    assert server.last.json == {"filter": {"all": True}}


def test_dead_letters_are_edited_by_group(server: StubServer, run: Timeball, tmp_path: Path) -> None:
    server.on("POST", "/v1/dead-letters:retry", {"matched": 2, "retried": 2, "skipped": 0})
    (tmp_path / "edit.json").write_text('{"timeout": "1h", "parameters": {"a": 1, "b": 2}}')
    result = run(
        "dead", "retry", "--group", "f", "--tag", "t", "--edit", "@edit.json", "--param", "b=x", "--param", "c=null"
    )
    assert (result.exit_code, result.stdout) == (0, "matched\t2\nretried\t2\nskipped\t0\n")
    assert server.last.json == {
        "filter": {"fingerprint": "f", "tag": "t"},
        "edit": {"timeout": "1h", "parameters": {"a": 1, "b": "x", "c": None}},
    }
    assert run("dead", "retry", "--all", "--edit", "[]").exit_code == 2
    assert run("dead", "retry", "--all", "--param", "x").exit_code == 2


def test_dead_letters_are_counted_grouped_shown_and_discarded(server: StubServer, run: Timeball) -> None:
    server.on("POST", "/v1/dead-letters:discard", {"matched": 1200, "createdBefore": "2026-03-01T02:00:00Z"})
    assert run("dead", "discard", "--all", "--dry-run").stdout == "1200\n"
    assert run("dead", "discard", "--all", "--dry-run", "-o", "table").stdout == "1,200 dead letters\n"
    assert server.last.json == {"filter": {"all": True}, "dryRun": True}
    group = {"fingerprint": "f", "count": 3, "jobs": 2, "kind": "exit", "message": "boom", "exampleRunId": RUN_ID}
    server.on("GET", "/v1/dead-letters/groups", {"items": [group], "counted": 3})
    assert run("dead", "groups", "--job", JOB_ID).stdout.splitlines()[1] == f"f\t3\t2\t-\t-\t{RUN_ID}\texit: boom"
    assert server.last.query == {"jobId": JOB_ID, "limit": "50"}
    server.on("GET", f"/v1/runs/{RUN_ID}", {**RUN, "status": "dead", "fingerprint": "f"})
    spec = {"parameters": {"a": 1}, "task": {"kind": "shell", "command": "x"}}
    server.on("GET", f"/v1/runs/{RUN_ID}/spec", {"runId": RUN_ID, "edited": True, "spec": spec})
    shown = run("dead", "show", RUN_ID).stdout
    assert 'parameters\t{"a":1}' in shown
    assert "edited\tfor this run" in shown
    assert json.loads(run("dead", "show", RUN_ID, "-o", "json").stdout)["spec"] == spec


def test_nothing_happens_to_many_by_accident(
    server: StubServer, run: Timeball, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in (("dead", "retry"), ("dead", "discard"), ("runs", "bulk", "cancel"), ("jobs", "bulk", "pause")):
        assert run(*command).exit_code == 2
        assert run(*command, "--all", "--tag", "x").exit_code == 2
    assert run("dead", "retry", RUN_ID, "--all").exit_code == 2
    assert not server.seen
    monkeypatch.setattr("timeball.cli.options.run_selection.asks", lambda *, yes: not yes)
    counted = {"matched": 7, "createdBefore": "2026-03-01T02:00:00Z"}
    for path, command, question in (
        ("/v1/dead-letters:retry", ("dead", "retry", "--tag", "x"), "Retry 7 dead letters?"),
        ("/v1/dead-letters:discard", ("dead", "discard", "--tag", "x"), "Discard 7 dead letters?"),
        ("/v1/runs:bulk", ("runs", "bulk", "replay", "--tag", "x"), "Replay 7 runs?"),
        ("/v1/jobs:bulk", ("jobs", "bulk", "cancel", "--tag", "x"), "Cancel 7 jobs?"),
    ):
        server.on("POST", path, counted)
        refused = run(*command, stdin="n\n")
        assert refused.exit_code == 1
        assert question in refused.stdout
        assert server.last.json["dryRun"] is True
        agreed = run(
            *command,
            stdin="y\n",
        )
        assert agreed.exit_code == (0 if "jobs" in command else 1)  # the stub changed nothing
        assert server.last.json["filter"] == {"tag": "x", "createdBefore": "2026-03-01T02:00:00Z"}
        seen = len(server.seen)
        run(*command, "--yes")
        assert len(server.seen) == seen + 1


def test_runs_are_replayed_and_changed_in_bulk(server: StubServer, run: Timeball) -> None:
    server.on("POST", f"/v1/runs/{RUN_ID}/replay", {"runId": "r_new", "status": "blocked", "detail": "it waits"})
    assert run("runs", "replay", RUN_ID).stdout == "r_new\n"
    assert run("runs", "replay", RUN_ID, "--param", "a=1", "-o", "table").stdout == "Run r_new is blocked: it waits.\n"
    assert server.last.json == {"edit": {"parameters": {"a": 1}}}
    failed = [{"runId": "r_2", "error": {"detail": "its job was cancelled"}}]
    server.on("POST", "/v1/runs:bulk", {"matched": 2, "changed": 1, "skipped": 1, "failed": failed})
    result = run("runs", "bulk", "retry", "--status", "failed", "--origin", "replay", "--job", JOB_ID)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == ["matched\t2", "retried\t1", "skipped\t1"]
    assert "its job was cancelled" in result.stderr
    assert server.last.json == {
        "action": "retry",
        "filter": {"jobId": JOB_ID, "status": "failed", "origin": "replay"},
    }


def test_jobs_are_changed_in_bulk(server: StubServer, run: Timeball) -> None:
    failed = [{"jobId": "j_2", "error": {"detail": "job j_2 was cancelled"}}]
    first = {"matched": 500, "changed": 499, "skipped": 1, "failed": failed, "nextCursor": JOB_ID}
    server.on("POST", "/v1/jobs:bulk", first)
    server.on("POST", "/v1/jobs:bulk", {"matched": 2, "changed": 2, "skipped": 0, "failed": [], "nextCursor": None})
    result = run("jobs", "bulk", "pause", "--search", "etl", "--kind", "shell", "--reason", "moving", "--yes")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == ["matched\t502", "paused\t501", "skipped\t1"]
    assert "job j_2 was cancelled" in result.stderr
    body = {"action": "pause", "filter": {"q": "etl", "kind": "shell"}, "reason": "moving"}
    assert [each.json for each in server.seen] == [body, {**body, "cursor": JOB_ID}]


def test_jobs_are_counted_before_they_are_run_in_bulk(server: StubServer, run: Timeball) -> None:
    server.on("POST", "/v1/jobs:bulk", {"matched": 3, "changed": 3, "createdBefore": "2026-03-01T02:00:00Z"})
    assert run("jobs", "bulk", "resume", "--all", "--dry-run").stdout == "3\n"
    assert server.last.json == {"action": "resume", "filter": {"all": True}, "dryRun": True}
    done = json.loads(run("jobs", "bulk", "run", "--user-id", "ann", "--schedule-type", "cron", "-o", "json").stdout)
    assert done["changed"] == 3
    filter_ = {"userId": "ann", "scheduleType": "cron", "createdBefore": "2026-03-01T02:00:00Z"}
    assert server.last.json == {"action": "run", "filter": filter_}


def test_jobs_are_listed_by_a_text_and_by_kind(server: StubServer, run: Timeball) -> None:
    server.on("GET", "/v1/jobs", {"items": []})
    run("jobs", "list", "--search", "etl", "--kind", "http", "--schedule-type", "cron", "--user-id", "ann")
    assert server.last.query.items() >= {"q": "etl", "kind": "http", "scheduleType": "cron", "userId": "ann"}.items()


STATS = {
    "window": "1h",
    "from": "2026-03-01T01:00:00Z",
    "to": "2026-03-01T02:00:00Z",
    "bucketSeconds": 1200,
    "buckets": [
        {"at": f"2026-03-01T01:{minute}:00Z", "finished": finished, "lateP50Ms": None, "lateP99Ms": None}
        for minute, finished in (("00", 0), ("20", 1), ("40", 1199))
    ],
    "totals": {
        "finished": 1200,
        "succeeded": 1197,
        "dead": 3,
        "lateP50Ms": 12.4,
        "lateP99Ms": 81.0,
        "runsPerSecond": 0.3333,
        "successRate": 0.9975,
    },
    "now": {"queued": 4, "running": 2, "oldestQueuedAgeMs": 12_500.0, "deadLetters": 3, "jobs": 50_000, "capped": True},
    "workers": {"live": 2, "slots": 8, "busy": 2},
    "upNext": [{"jobId": "j_1", "jobName": "etl", "fireTime": "2026-03-01T02:05:00Z"}],
    "attention": [
        {
            "kind": "dead",
            "count": 3,
            "jobId": "j_1",
            "jobName": "etl",
            "runId": None,
            "message": "3 dead letters: retry or discard them.",
            "since": "2026-03-01T01:30:00Z",
        }
    ],
}


def test_statistics_are_readable_on_a_terminal_and_plain_in_a_pipe(server: StubServer, run: Timeball) -> None:
    server.on("GET", "/v1/stats", STATS)
    lines = run("stats", "--window", "24h").stdout.splitlines()
    assert server.last.query == {"window": "24h"}
    fields = dict(line.split("\t", 1) for line in lines)
    assert fields["finished"] == "1200"
    assert fields["missed"] == "0"
    assert (fields["start lateness p99"], fields["success rate"]) == ("81 ms", "0.9975")
    assert fields["slots busy"] == "2/8"
    assert "next\t2026-03-01T02:05:00Z\tj_1\tetl" in lines
    assert "attention\tdead\t3\tj_1\t3 dead letters: retry or discard them." in lines

    shown = run("stats", "-o", "table").stdout
    for text in ("1,200", "99.75%", "▁▂█", "50,000 or more", "12 s", "Up next", "etl: 3 dead letters"):
        assert text in shown
    assert "missed" not in shown
    assert json.loads(run("stats", "-o", "json").stdout) == STATS
    assert run("stats", "--window", "2h").exit_code == 2


def test_keys_are_printed_alone_so_that_scripts_can_take_them(server: StubServer, run: Timeball) -> None:
    server.on("POST", "/v1/api-keys", {"keyId": "k_1", "role": "worker", "name": "", "key": "tb_secret"}, status=201)
    server.on("GET", "/v1/api-keys", {"items": [{"keyId": "k_1", "role": "worker", "name": "rack"}]})
    server.on("DELETE", "/v1/api-keys/k_1", status=204)
    assert run("keys", "create", "--role", "worker").stdout == "tb_secret\n"
    assert "it is not shown again" in run("keys", "create", "--role", "worker", "-o", "table").stderr
    assert "k_1\tworker\track" in run("keys", "list").stdout
    assert run("keys", "revoke", "k_1").stdout == "k_1\n"
    assert run("keys", "revoke", "k_1", "-o", "json").stdout == ""


def test_calendars(server: StubServer, run: Timeball) -> None:
    calendar = {
        "name": "freeze",
        "timezone": "Europe/Berlin",
        "entries": [
            {"from": "2026-12-20T00:00", "to": "2027-01-03T00:00", "reason": "year-end"},
            {"cron": "0 22 * * FRI", "for": "58h"},
            {"dates": ["2026-12-25", "2026-12-26"]},
        ],
        "version": 2,
        "updatedAt": "2026-03-01T02:00:00Z",
    }
    server.on("PUT", "/v1/calendars/freeze", calendar)
    server.on("GET", "/v1/calendars", {"items": [calendar]})
    server.on("GET", "/v1/calendars/freeze", calendar)
    server.on("DELETE", "/v1/calendars/freeze", status=204)
    said = ("--tz", "Europe/Berlin", "--date", "2026-12-25", "--closed", "a..b", "--window", "0 22 * * FRI=58h")
    assert run("calendars", "set", "freeze", *said, "--reason", "r").stdout == "freeze\n"
    assert server.last.json == {
        "timezone": "Europe/Berlin",
        "entries": [
            {"dates": ["2026-12-25"], "reason": "r"},
            {"from": "a", "to": "b", "reason": "r"},
            {"cron": "0 22 * * FRI", "for": "58h", "reason": "r"},
        ],
    }
    for wrong in ((), ("--closed", "a"), ("--window", "0 22 * * FRI"), ("--date", "d", "--file", "f")):
        assert run("calendars", "set", "freeze", *wrong).exit_code == 2
    assert "freeze\tEurope/Berlin\t3\t2" in run("calendars", "list").stdout
    shown = run("calendars", "show", "freeze").stdout
    assert "closed 1\tfrom 2026-12-20T00:00 to 2027-01-03T00:00 (year-end)\n" in shown
    assert "closed 2\t58h from 0 22 * * FRI on\n" in shown
    assert "closed 3\t2026-12-25, 2026-12-26\n" in shown
    spans = [{"from": "2026-12-19T23:00:00Z", "to": "2027-01-02T23:00:00Z", "entry": 0, "reason": "year-end"}]
    answer = {"from": "2026-12-01T00:00:00Z", "to": "2027-01-31T00:00:00Z", "closed": spans}
    server.on("POST", "/v1/calendars:preview", answer)
    bounds = ("--from", "2026-12-01T00:00:00Z", "--to", "2027-01-31T00:00:00Z")
    assert (
        "2026-12-19T23:00:00Z\t2027-01-02T23:00:00Z\tyear-end" in run("calendars", "closed", "freeze", *bounds).stdout
    )
    sent = server.last.json
    assert sent["calendar"] == {"timezone": "Europe/Berlin", "entries": calendar["entries"]}
    assert (sent["from"], sent["to"]) == ("2026-12-01T00:00:00Z", "2027-01-31T00:00:00Z")
    assert run("calendars", "delete", "freeze").exit_code == 0


def test_a_job_with_calendars(server: StubServer, run: Timeball) -> None:
    job = {**JOB, "calendars": ["freeze"], "excluded": "next_open"}
    server.on("POST", "/v1/jobs", job, status=201)
    server.on("PATCH", f"/v1/jobs/{JOB_ID}", job)
    run("jobs", "create", "etl", "--shell", "x", "--cron", "@daily", "--calendar", "freeze", "--excluded", "next_open")
    sent = server.last.json
    assert (sent["calendars"], sent["excluded"]) == (["freeze"], "next_open")
    run("jobs", "create", "etl", "--shell", "x", "--window", "22:00-02:00", "--tz", "Asia/Tokyo")
    assert server.last.json["schedule"] == {"type": "window", "from": "22:00", "to": "02:00", "timezone": "Asia/Tokyo"}
    run("jobs", "update", JOB_ID, "--calendar", "none")
    assert server.last.json == {"calendars": None}


def test_a_window_in_words() -> None:
    from timeball.cli.jobs.jobs import schedule_in_words

    window = {"type": "window", "from": "01:00", "to": "05:00"}
    assert schedule_in_words(window) == "between 01:00 and 05:00"
    told = schedule_in_words({**window, "days": ["MON", "TUE"], "timezone": "Asia/Tokyo"})
    assert told == "between 01:00 and 05:00 on MON, TUE (Asia/Tokyo)"


def test_forecast(server: StubServer, run: Timeball, monkeypatch: pytest.MonkeyPatch) -> None:
    def item(hour: int, fires: int) -> dict[str, Any]:
        times = {"from": f"2026-03-01T{hour:02}:00:00Z", "to": f"2026-03-01T{hour + 1:02}:00:00Z"}
        return {**times, "fires": fires, "runSeconds": fires * 2.5, "capacitySeconds": 36_000, "load": fires / 1000}

    answer = {"items": [item(0, 0), item(1, 10), item(2, 160)], "peak": item(2, 160), "slots": 10, "notes": ["Beware."]}
    server.on("GET", "/v1/forecast", answer)
    told = run("forecast", "--to", "24h", "--bucket", "1h")
    assert server.last.query.keys() == {"to", "bucket"}
    assert told.stdout.splitlines()[-2:] == [
        "2026-03-01T01:00:00Z\t10\t25.0\t1.0%",
        "2026-03-01T02:00:00Z\t160\t400.0\t16.0%",
    ]
    assert "Note: Beware." in told.stderr
    assert json.loads(run("forecast", "-o", "json").stdout)["slots"] == 10


def test_the_peak_of_a_forecast_names_its_jobs() -> None:
    from timeball.cli.inspect.forecast import peak
    from timeball.client.models.schedules import BusyForecastBucket, Forecast, ForecastBucket, ForecastCause

    hour = datetime(2026, 3, 1, 2, tzinfo=UTC)
    busy = ForecastBucket(since=hour, until=hour + timedelta(hours=1), fires=161, load=0.5, jobs=9)
    causes = [ForecastCause(job_id="j_1", job_name="etl", fires=160, run_seconds=1200), ForecastCause("j_2", fires=1)]
    found = Forecast(items=[busy], peak=busy, slots=10, busiest=[BusyForecastBucket(bucket=busy, causes=causes)])
    assert peak(found).splitlines()[1:] == [
        "  etl: 160 fires, 1,200.0 run seconds",
        "  j_2: 1 fire",
        "  and 7 more jobs",
    ]
    assert "161 fires, 50.0% of 10 slots" in peak(found)


def test_a_bar_is_as_long_as_there_are_fires() -> None:
    from timeball.cli.inspect.forecast import WIDTH, bar

    assert (bar(0, 10), bar(10, 10), bar(5, 10)) == ("", "█" * WIDTH, "█" * (WIDTH // 2))
    assert (bar(1, 100_000), bar(0, 0)) == ("▏", "")


def test_tasks_and_workers(server: StubServer, run: Timeball) -> None:
    task = {"taskId": "backup", "task": {"kind": "shell", "command": "x"}, "version": 2}
    server.on("PUT", "/v1/tasks/backup", task)
    server.on("GET", "/v1/tasks", {"items": [task]})
    server.on("GET", "/v1/tasks/backup", task)
    server.on("DELETE", "/v1/tasks/backup", status=204)
    rack = {"workerId": "w_1", "name": "rack", "slots": 8, "running": 3, "inUse": {"slots": 5}, "labels": ["a", "b"]}
    rack["pools"] = [{"name": "threads", "slots": 4}, {"name": "processes", "slots": 2}]
    bench = {"workerId": "w_2", "name": "bench", "cpu": 1.5, "memoryMb": 512, "labels": ["gpu"], "dedicated": True}
    bench |= {"inUse": {"slots": 1, "cpu": 0.5, "memoryMb": 256}, "reservedFor": RUN_ID}
    server.on("GET", "/v1/workers", {"items": [rack, bench]})
    assert run("tasks", "set", "backup", "--shell", "x").stdout == "backup\n"
    assert server.last.json == {"kind": "shell", "command": "x"}
    assert run("tasks", "set", "backup").exit_code == 2
    assert "backup\tshell\t2" in run("tasks", "list").stdout
    assert "command\tx\n" in run("tasks", "show", "backup").stdout
    assert run("tasks", "delete", "backup").exit_code == 0
    listed = run("workers", "--gone").stdout
    assert server.last.query == {"include": "gone"}
    assert "rack\tw_1\t3\t5/8\t4 threads, 2 processes\t0/any\t0/any\ta, b\t-\t" in listed
    assert f"bench\tw_2\t0\t1/0\t-\t0.5/1.5\t256/512 MiB\tgpu only\t{RUN_ID}\t" in listed


def test_a_worker_is_drained_by_its_id_or_its_name(server: StubServer, run: Timeball) -> None:
    ident = f"w_{1:028x}"
    rack = {"workerId": ident, "name": "rack", "slots": 8, "status": "draining"}
    twins = [{"workerId": f"w_{n:028x}", "name": "twin"} for n in (2, 3)]
    server.on("GET", "/v1/workers", {"items": [rack, *twins]})
    server.on("POST", f"/v1/workers/{ident}/drain", {"workerId": ident, "status": "draining"}, status=202)
    for said in (ident, "rack"):
        assert run("workers", "drain", said).stdout == f"{ident}\n"
    assert "finishes its runs" in run("workers", "drain", "rack", "-o", "table").stdout
    assert json.loads(run("workers", "drain", "rack", "-o", "json").stdout)["status"] == "draining"
    assert run("workers").stdout.splitlines()[1].endswith("\tdraining")
    unknown = run("workers", "drain", "nobody")
    assert (unknown.exit_code, "nobody" in unknown.stderr) == (4, True)
    twin = run("workers", "drain", "twin")
    assert (twin.exit_code, "2 workers are called 'twin'" in twin.stderr) == (6, True)
    misplaced = run("workers", "-o", "json", "drain", "rack")
    assert (misplaced.exit_code, "behind `drain`" in misplaced.stderr) == (2, True)


def test_draining_may_be_waited_for(server: StubServer, run: Timeball, monkeypatch: pytest.MonkeyPatch) -> None:
    ident = f"w_{1:028x}"
    monkeypatch.setattr("time.sleep", lambda _: server.on("GET", "/v1/workers", {"items": []}))
    server.on("GET", "/v1/workers", {"items": [{"workerId": ident, "name": "rack"}]})
    server.on("POST", f"/v1/workers/{ident}/drain", {"workerId": ident, "status": "draining"}, status=202)
    assert run("workers", "drain", "rack", "--wait").stdout == f"{ident}\n"
    server.on("GET", "/v1/workers", {"items": []})
    assert run("workers", "drain", ident, "--wait", "-o", "json").stdout.strip().endswith('"status":"left"}')


VERSIONS = {
    "items": [
        {
            "version": 5,
            "at": "2026-03-03T00:00:00Z",
            "by": "ci",
            "job": {"name": "etl", "timeout": None, "tags": ["a"]},
        },
        {"version": 2, "at": "2026-03-02T00:00:00Z", "by": None, "job": {"name": "etl", "timeout": "5m", "tags": []}},
        {"version": 1, "at": "2026-03-01T00:00:00Z", "by": None, "job": {"name": "old", "timeout": "5m", "tags": []}},
    ],
    "nextCursor": None,
}


def test_versions_of_a_job_name_what_each_changed(server: StubServer, run: Timeball) -> None:
    server.on("GET", f"/v1/jobs/{JOB_ID}/versions", VERSIONS)
    assert run("jobs", "versions", JOB_ID).stdout.splitlines() == [
        "VERSION\tAT\tBY\tCHANGED",
        "5\t2026-03-03T00:00:00Z\tci\ttimeout,tags",
        "2\t2026-03-02T00:00:00Z\t-\tname",
        "1\t2026-03-01T00:00:00Z\t-\tcreated",
    ]
    assert len(json.loads(run("jobs", "versions", JOB_ID, "-o", "json").stdout)["items"]) == 3


def test_two_versions_of_a_job_are_compared(server: StubServer, run: Timeball) -> None:
    """Version 4 was made by a pause: it has the definition of version 2."""
    server.on("GET", f"/v1/jobs/{JOB_ID}/versions", VERSIONS)
    compared = run("jobs", "versions", JOB_ID, "--diff", "4", "5").stdout.splitlines()
    assert compared[:2] == ["--- version 2", "+++ version 5"]
    assert [line for line in compared[2:] if line[0] in "+-"] == [
        '-  "timeout": "5m",',
        '-  "tags": []',
        '+  "timeout": null,',
        '+  "tags": [',
        '+    "a"',
        "+  ]",
    ]
    assert run("jobs", "versions", JOB_ID, "--diff", "5", "9").stdout == ""
    unknown = run("jobs", "versions", JOB_ID, "--diff", "0", "5")
    assert (unknown.exit_code, "'0'" in unknown.stderr) == (4, True)


def test_empty_lists_say_what_to_do_next(server: StubServer, run: Timeball) -> None:
    server.on("GET", "/v1/jobs", {"items": []})
    assert "Create one: timeball jobs create" in run("jobs", "list", "-o", "table").stdout
    assert run("jobs", "list").stdout == "NAME\tID\tSTATUS\tSCHEDULE\tNEXT FIRE\tTAGS\n"


@pytest.mark.parametrize(
    ("status", "code", "exit_code"),
    [(422, "invalid", 2), (503, "unavailable", 3), (404, "not_found", 4), (401, "unauthorized", 5),
     (403, "forbidden", 5), (409, "conflict", 6), (412, "precondition_failed", 6), (413, "too_large", 7),
     (429, "too_many_requests", 7), (500, "internal", 8)],
)  # fmt: skip
def test_every_refusal_has_its_exit_code(
    server: StubServer, run: Timeball, status: int, code: str, exit_code: int
) -> None:
    server.problem("GET", "/v1/workers", status, code, "because", headers={"retry-after": "60"})
    result = run("workers")
    assert result.exit_code == exit_code
    assert result.stderr.startswith("Error: because\n")
    assert result.stdout == ""


def test_a_server_that_is_not_there(server: StubServer, run: Timeball) -> None:
    server.fail("GET", "/v1/jobs", Unreachable("Connection refused"))
    result = run("jobs", "list")
    assert result.exit_code == 3
    assert "start it with `timeball up`" in result.stderr
    assert result.stdout == ""


def test_every_wrong_value_is_pointed_at(server: StubServer, run: Timeball) -> None:
    one = [{"pointer": "/timeout", "detail": "too short"}]
    server.problem("POST", "/v1/jobs", 422, "invalid", "too short", errors=one)
    assert run("jobs", "create", "--shell", "x").stderr == "Error: too short (at /timeout)\n"
    two = [*one, {"pointer": "/tags/0", "detail": "is empty"}]
    server.problem("POST", "/v1/jobs", 422, "invalid", "2 values are wrong", errors=two)
    run("jobs", "create", "--shell", "x")
    assert run("jobs", "create", "--shell", "x").stderr.splitlines() == [
        "Error: 2 values are wrong",
        "  /timeout: too short",
        "  /tags/0: is empty",
    ]


def test_an_interrupted_command_says_so_to_scripts(server: StubServer, run: Timeball) -> None:
    server.fail("GET", f"/v1/runs/{RUN_ID}", KeyboardInterrupt())
    assert run("runs", "wait", RUN_ID).exit_code == 130
    result = run("runs", "logs", "-f", RUN_ID)
    assert (result.exit_code, result.output) == (130, "")


@pytest.mark.parametrize(("status", "state"), [("succeeded", "completed"), ("running", "active")])
def test_why_calls_a_job_without_a_further_fire_completed(
    server: StubServer, run: Timeball, status: str, state: str
) -> None:
    reason = {"code": "completed", "text": "The job has no further fire.", "unblocks": ""}
    job = {"jobId": JOB_ID, "jobName": "etl", "state": "active", "answer": "It has ended.", "reasons": [reason]}
    server.on("GET", f"/v1/jobs/{JOB_ID}/why", {**job, "run": {"runId": RUN_ID, "status": status}})
    assert f"Job etl is {state}." in run("why", JOB_ID, "-o", "table").stdout


def test_runs_of_a_worker_are_listed_by_its_id_or_its_name(server: StubServer, run: Timeball) -> None:
    ident = f"w_{1:028x}"
    server.on("GET", "/v1/workers", {"items": [{"workerId": ident, "name": "rack"}]})
    server.on("GET", "/v1/runs", {"items": [RUN]})
    for said in (ident, "rack"):
        assert run("runs", "list", "--worker", said).exit_code == 0
        assert server.last.query["workerId"] == ident
    for said in ("bob", f"w_{2:028x}"):
        unknown = run("runs", "list", "--worker", said)
        assert (unknown.exit_code, unknown.stdout) == (4, "")
        assert f"there is no live worker '{said}'; `timeball workers` lists them" in unknown.stderr


def test_on_a_terminal_a_wait_shows_the_job_and_the_end_of_the_output(server: StubServer, run: Timeball) -> None:
    server.on("GET", f"/v1/runs/{RUN_ID}", RUN)
    server.on("GET", f"/v1/runs/{RUN_ID}/logs", b"hello\tyou\n\x1b[2Jbye")
    lines = run("runs", "wait", RUN_ID, "-o", "table").stdout.splitlines()
    assert lines[-3:] == [f"etl {RUN_ID} succeeded", "hello   you", "\ufffd[2Jbye"]
    assert server.last.query == {"attempt": "1"}
    for _ in range(2):
        server.on("GET", f"/v1/runs/{RUN_ID}/logs", b"".join(b"%d\n" % number for number in range(1_000)))
    run("runs", "wait", RUN_ID, "-o", "table")
    lines = run("runs", "wait", RUN_ID, "-o", "table").stdout.splitlines()
    assert lines[-21:] == [
        f"the last 20 of 1,000 lines; all: timeball runs logs {RUN_ID}",
        *map(str, range(980, 1_000)),
    ]


def test_an_unreadable_output_does_not_hide_how_a_run_ended(server: StubServer, run: Timeball) -> None:
    server.on("GET", f"/v1/runs/{RUN_ID}", RUN)
    server.problem("GET", f"/v1/runs/{RUN_ID}/logs", 404, "not_found", "it was pruned")
    result = run("runs", "wait", RUN_ID, "-o", "table")
    assert result.exit_code == 0
    assert f"etl {RUN_ID} succeeded" in result.stdout
    assert "its output cannot be shown: it was pruned" in result.stderr


def test_on_a_terminal_a_line_separates_the_output_of_attempts(server: StubServer, run: Timeball) -> None:
    server.on("GET", f"/v1/runs/{RUN_ID}", {**RUN, "attempt": 3})
    for text in (b"no\n", b"still no", b"yes\n"):
        server.on("GET", f"/v1/runs/{RUN_ID}/logs", text)
    assert run("runs", "logs", RUN_ID, "-o", "table").stdout == "no\nattempt 2\nstill no\nattempt 3\nyes\n"
    assert server.last.query == {"attempt": "3"}
    assert run("runs", "logs", RUN_ID, "-o", "table", "--attempt", "3").stdout == "yes\n"
    assert run("runs", "logs", RUN_ID).stdout == "yes\n", "in a pipe, the output is printed as it is"


def test_on_a_terminal_a_line_separates_attempts_that_are_followed(server: StubServer, run: Timeball) -> None:
    chunks = [{"attempt": attempt, "seq": 0, "text": text} for attempt, text in ((1, "no"), (2, "yes\n"))]
    server.on("GET", f"/v1/runs/{RUN_ID}", {**RUN, "attempt": 2})
    server.on("GET", f"/v1/runs/{RUN_ID}/logs", b"".join(json.dumps(chunk).encode() + b"\n" for chunk in chunks))
    assert run("runs", "logs", RUN_ID, "-f", "-o", "table").stdout == "no\nattempt 2\nyes\n"
    assert run("runs", "logs", RUN_ID, "-f").stdout == "noyes\n"


def test_a_fire_in_the_past_is_due_now(server: StubServer, run: Timeball) -> None:
    coming = (datetime.now(UTC) + timedelta(hours=2)).isoformat()
    for fire, said in ((JOB["nextFireAt"], "; next fire due now."), (coming, "; next fire in 1 h 59 min, at ")):
        server.on("POST", f"/v1/jobs/{JOB_ID}/resume", {**JOB, "nextFireAt": fire})
        server.on("POST", f"/v1/jobs/{JOB_ID}/resume", {**JOB, "nextFireAt": fire})
        printed = [run("jobs", "resume", JOB_ID, "-o", "table").stdout for _ in range(2)]
        assert said in printed[-1]
