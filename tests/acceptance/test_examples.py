"""Each example, on a real `timeball up`: it is accepted, fires at the times that it states, and succeeds."""

import datetime as dt
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx2 as httpx
import pytest

from tests.support.processes import KEY, Api, free_port, running_up, until

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
ENDED = ("succeeded", "failed", "dead", "cancelled", "skipped")
FIRES = 5

pytestmark = pytest.mark.xdist_group("examples")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_up(tmp_path_factory.mktemp("examples"), None, "--scripts-dir", str(EXAMPLES)) as (_, api):
        api.await_workers(1)
        yield api


def timeball(api: Api, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "timeball", *arguments],
        env={**os.environ, "TIMEBALL_URL": api.url, "TIMEBALL_TOKEN": KEY},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def applied(api: Api, file: Path) -> str:
    """The id of the one job of a file."""
    name = re.findall(r"- name: (\S+)", file.read_text())[0]
    timeball(api, "apply", str(file))
    [job] = api.call("GET", f"/v1/jobs?name={name}")["items"]
    assert job["status"] == "scheduled"
    return str(job["jobId"])


def next_fires(api: Api, job_id: str, zone: str) -> list[dt.datetime]:
    fires = api.call("GET", f"/v1/jobs/{job_id}/next?count={FIRES}")["items"]
    times = [fire["fireTime"] if isinstance(fire, dict) else fire for fire in fires]
    return [dt.datetime.fromisoformat(time).astimezone(ZoneInfo(zone)) for time in times]


def expected_fires(days: Callable[[dt.date], bool], time: dt.time, zone: str) -> list[dt.datetime]:
    """The next times of day on such days, counted without the scheduler."""
    now = dt.datetime.now(ZoneInfo(zone))
    found = [
        moment
        for ahead in range(400)
        if days(day := now.date() + dt.timedelta(days=ahead))
        if (moment := dt.datetime.combine(day, time, ZoneInfo(zone))) > now
    ]
    return found[:FIRES]


def run_by_hand(api: Api, job_id: str) -> dict[str, Any]:
    run_id = api.call("POST", f"/v1/jobs/{job_id}/run", expect=(200, 201, 202))["runId"]

    def ended() -> dict[str, Any] | None:
        run = api.call("GET", f"/v1/runs/{run_id}")
        return run if run["status"] in ENDED else None

    run = until(ended, "the run to end")
    assert run["status"] == "succeeded", (run, api.call("GET", f"/v1/runs/{run_id}/logs"))
    return run


SCHEDULED = {
    "nightly_etl": (lambda day: True, dt.time(2), "Europe/Berlin", {"orders": 31}),
    "database_cleanup": (lambda day: day.isoweekday() == 7, dt.time(3), "UTC", {"deleted": 274}),
    "monthly_report": (lambda day: day.day == 1, dt.time(6), "America/New_York", None),
    "daily_backup": (lambda day: True, dt.time(3, 30), "UTC", None),
    "friday_newsletter": (lambda day: day.isoweekday() == 5, dt.time(9), "Europe/London", {"sent": 2}),
}


@pytest.mark.parametrize("name", SCHEDULED)
def test_a_scheduled_example_fires_when_it_says_and_succeeds(api: Api, name: str) -> None:
    days, time, zone, result = SCHEDULED[name]
    job_id = applied(api, EXAMPLES / name / "job.yaml")
    assert next_fires(api, job_id, zone) == expected_fires(days, time, zone)
    run = run_by_hand(api, job_id)
    returned = api.call("GET", f"/v1/runs/{run['runId']}/result")
    assert returned == result if result is not None else returned


def test_the_workflow_runs_every_task_and_returns_a_sum(api: Api) -> None:
    timeball(api, "workflows", "create", "--file", str(EXAMPLES / "workflow" / "nightly.json"))
    [workflow] = api.call("GET", "/v1/workflows?name=nightly-load")["items"]
    assert next_fires(api, workflow["workflowId"], "UTC") == expected_fires(lambda day: True, dt.time(4), "UTC")
    run_id = api.call("POST", f"/v1/workflows/{workflow['workflowId']}/run", expect=(200, 201, 202))["runId"]

    def ended() -> dict[str, Any] | None:
        run = api.call("GET", f"/v1/workflow-runs/{run_id}")
        return run if run["status"] in ENDED else None

    run = until(ended, "the workflow run to end")
    assert run["status"] == "succeeded", run
    [summary] = [task for task in run["tasks"] if task["name"] == "summary"]
    result = api.call("GET", f"/v1/runs/{summary['runId']}/result")
    assert result == {
        "files": 3,
        "rows": sum(len(f"landing/{name}.csv") for name in ("orders", "customers", "returns")),
    }


def test_the_webhook_is_repeated_until_it_is_accepted(api: Api, tmp_path: Path) -> None:
    port = free_port()
    file = tmp_path / "job.yaml"
    file.write_text((EXAMPLES / "webhook" / "job.yaml").read_text().replace(":8099", f":{port}"))
    receiver = subprocess.Popen([sys.executable, str(EXAMPLES / "webhook" / "receiver.py"), str(port)])
    try:
        job_id = applied(api, file)
        before = dt.datetime.now(dt.UTC)
        first, second = next_fires(api, job_id, "UTC")[:2]
        assert second - first == dt.timedelta(minutes=15) >= first - before
        assert run_by_hand(api, job_id)["attempt"] == 3
    finally:
        receiver.terminate()
        receiver.wait()


def test_the_fastapi_application_submits_a_job_once(api: Api) -> None:
    pytest.importorskip("fastapi", reason="FastAPI is not installed: pip install fastapi")
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "app:app", "--port", str(port), "--log-level", "warning"],
        cwd=EXAMPLES / "fastapi_app",
        env={**os.environ, "TIMEBALL_URL": api.url, "TIMEBALL_TOKEN": KEY},
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as http:
            until(lambda: _answers(http), "the application to start")
            first, second = (http.post("/orders/7/invoice").json()["jobId"] for _ in range(2))
            assert first == second
            run = until(lambda: api.ended_run_of(first), "the run to end")
            assert run["status"] == "succeeded"
            assert http.get(f"/jobs/{first}").json()["runId"] == run["runId"]
        assert "invoice for order 7" in api.call("GET", f"/v1/runs/{run['runId']}/logs")
    finally:
        server.terminate()
        server.wait()


def _answers(http: httpx.Client) -> bool | None:
    try:
        return http.get("/openapi.json").status_code == 200
    except httpx.TransportError:
        return None


def test_every_example_is_listed_and_tested() -> None:
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert set(re.findall(r"^\| \[(\w+)\]\(\1\)", (EXAMPLES / "README.md").read_text(), re.MULTILINE)) == folders
    assert folders == {*SCHEDULED, "workflow", "webhook", "fastapi_app"}
