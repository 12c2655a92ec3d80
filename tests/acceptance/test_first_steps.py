"""What a new user does in the first five minutes: jobs run on time, and show what happened."""

import datetime as dt
import json

import pytest
from click.testing import CliRunner

from tests.support.processes import KEY, Api, until
from timeball.cli.root import timeball
from timeball.cli.tools import load_test

ECHO = {"kind": "shell", "command": "echo hello from $TIMEBALL_RUN_ID; echo '::progress 50 half way'"}


def soon(seconds: float) -> str:
    return (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)).isoformat()


def moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


@pytest.mark.parametrize(
    "schedule",
    [
        {"type": "immediate"},
        {"type": "date", "expression": None},
        {"type": "cron", "expression": "* * * * * *"},
        {"type": "interval", "expression": "1s"},
    ],
    ids=lambda schedule: schedule["type"],
)
def test_each_kind_of_schedule_runs_and_tells_what_happened(api: Api, schedule: dict) -> None:
    if schedule["type"] == "date":
        schedule = schedule | {"expression": soon(1)}
    job_id = api.create({"name": "first", "task": ECHO, "schedule": schedule})

    run = until(lambda: api.ended_run_of(job_id), "a run to end")
    assert run["status"] == "succeeded", run
    assert moment(run["startTime"]) >= moment(run["fireTime"]), "never early"

    status = api.call("GET", f"/v1/jobs/{job_id}/status")
    assert status["jobId"] == job_id
    assert status["runId"].startswith("r_")
    assert status["executorId"]
    assert status["attempt"] >= 1

    log = api.call("GET", f"/v1/runs/{run['runId']}/logs")
    assert f"hello from {run['runId']}" in log
    assert "hello from" in api.call("GET", f"/v1/jobs/{job_id}/logs")

    ledger = api.call("GET", f"/v1/jobs/{job_id}/ledger")
    assert ledger["due"] == sum(ledger["counts"].values()) >= 1
    [entry] = [item for item in ledger["items"] if item.get("runId") == run["runId"]]
    assert entry["verdict"] in ("on_time", "late")


def test_http_script_and_python_jobs_fail_or_succeed_with_a_reason(api: Api) -> None:
    refused = api.create(
        {"task": {"kind": "http", "url": "http://127.0.0.1:9/"}, "retry": {"maxRetries": 0}, "timeout": "20s"}
    )
    run = until(lambda: api.ended_run_of(refused), "the HTTP job to end")
    assert run["status"] == "dead"
    assert run["error"]["kind"] == "http"

    missing = api.create({"task": {"kind": "script", "script": "nothing.py"}, "retry": {"maxRetries": 0}})
    run = until(lambda: api.ended_run_of(missing), "the script job to end")
    assert run["status"] == "dead"
    assert "nothing.py" in run["error"]["message"]

    unknown = api.create({"task": {"kind": "python", "function": "no.such"}, "retry": {"maxRetries": 0}})
    run = until(lambda: api.ended_run_of(unknown), "the Python job to end")
    assert run["status"] == "dead"
    assert "no.such" in run["error"]["message"]

    dead = api.call("GET", "/v1/dead-letters")["items"]
    assert {item["jobId"] for item in dead} >= {refused, missing, unknown}


def test_a_failing_job_is_retried_and_ends_in_the_dead_letters(api: Api) -> None:
    job_id = api.create(
        {
            "task": {"kind": "shell", "command": "exit 3"},
            "retry": {"maxRetries": 2, "backoff": "fixed", "base": "100ms"},
        }
    )
    run = until(lambda: api.ended_run_of(job_id), "the job to give up")
    assert (run["status"], run["attempt"], run["error"]["exitCode"]) == ("dead", 3, 3)
    [again] = api.call("POST", "/v1/dead-letters:retry", json={"runIds": [run["runId"]]})["items"]
    assert (again["runId"], again["retriedAs"] != run["runId"]) == (run["runId"], True)
    second = until(
        lambda: (found := api.call("GET", f"/v1/runs/{again['retriedAs']}"))["status"] == "dead" and found, "its death"
    )
    assert second["retryOf"] == run["runId"]
    letters = [item["runId"] for item in api.call("GET", "/v1/dead-letters")["items"] if item["jobId"] == job_id]
    assert letters == [second["runId"]], "the retried one is no dead letter any more"


def test_a_registered_task_is_found_when_the_run_starts(api: Api) -> None:
    api.call("PUT", "/v1/tasks/greet", expect=(200, 201), json={"kind": "shell", "command": "echo registered"})
    job_id = api.create(
        {"taskId": "greet", "schedule": {"type": "DATE", "expression": soon(0)}, "parameters": {"a": 1}}
    )
    run = until(lambda: api.ended_run_of(job_id), "the run to end")
    assert run["status"] == "succeeded", run
    assert "registered" in api.call("GET", f"/v1/runs/{run['runId']}/logs")


def test_an_http_job_sends_its_body_and_says_who_it_is(api: Api) -> None:
    """The target is Timeball itself: what the job posts there is another job."""
    body = {"name": "child", "task": {"kind": "shell", "command": "true"}}
    key = {"Authorization": f"Bearer {KEY}"}
    job_id = api.create({"task": {"kind": "http", "url": f"{api.url}/v1/jobs", "headers": key, "body": body}})
    run = until(lambda: api.ended_run_of(job_id), "the run to end")
    assert run["status"] == "succeeded", run
    result = api.call("GET", f"/v1/runs/{run['runId']}/result")
    assert (result["status"], result["body"]["name"]) == (201, "child")


def test_the_installation_is_measured_with_jobs_that_every_worker_can_run(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"ONE_BY_ONE": 5, "BATCH": 100, "SPREAD": 20, "SPREAD_SECONDS": 1, "LEAD": 1}
    for name, value in small.items():
        monkeypatch.setattr(load_test, name, value)
    command = ["bench", "--jobs", "250", "--url", api.url, "--token", KEY, "-o", "json"]
    result = CliRunner().invoke(timeball, command)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["jobs"], found["failed"]) == ({"oneByOne": 5, "atOnce": 250, "spread": 20}, 0)
    for name in ("acceptedMs", "pickedUpMs", "latenessMs"):
        assert 0 <= found[name]["p50"] <= found[name]["p99"] <= found[name]["max"]
    assert min(found["ingestPerSecond"], found["lifeCyclePerSecond"]) > 0
    jobs = api.call("GET", "/v1/jobs?name=timeball-bench&limit=1000")["items"]
    assert [job["status"] for job in jobs] == ["completed"] * (5 + 250 + 20)
