"""`timeball bench` against a stub server: when it asks first, what it refuses, and how it reports jobs that failed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.stub_server import StubServer
from timeball.cli import session
from timeball.cli.root import timeball
from timeball.cli.tools import load_test
from timeball.cli.tools.load_test import Figures
from timeball.client.models.runs import Failure, Run
from timeball.tasks import NOOP

JOB_ID = "j_0194f3a1c2b79f86d081884c7d65"
RUN_ID = "r_0194f3a1c2b79f86d081884c7d65"
GOOD = Figures(
    accepted_after=[float(number) for number in range(1, 101)],
    picked_up_after=[5.04, 5.06],
    ingest=12_345.6,
    life_cycle=8_000.0,
    lateness=[1.0],
    unwell=[],
)

Timeball = Callable[..., Result]


def worker(name: str = "rack", **more: Any) -> dict[str, Any]:
    return {"workerId": "w_1", "name": name, "slots": 32, "tasks": [NOOP], "version": "1.2"} | more


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> StubServer:
    server = StubServer()
    monkeypatch.setattr(session, "make_transport", lambda: server)
    monkeypatch.setattr("timeball.cli.tools.load_test.time.sleep", lambda seconds: None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return server


@pytest.fixture
def run(server: StubServer) -> Timeball:
    def run(*arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(timeball, ("bench", *arguments), input=stdin, prog_name="timeball")

    return run


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many jobs each measurement was asked for."""
    asked: list[int] = []
    monkeypatch.setattr(load_test, "measure", lambda client, jobs, say: asked.append(jobs) or GOOD)
    return asked


@pytest.mark.parametrize(
    ("arguments", "stdin", "goes"),
    [
        ((), None, True),
        (("--url", "http://timeball.example.com"), "n\n", False),
        (("--url", "http://timeball.example.com"), None, False),
        (("--url", "http://127.0.0.1:1300,http://timeball.example.com"), "n\n", False),
        (("--url", "http://timeball.example.com"), "y\n", True),
        (("--url", "http://timeball.example.com", "--yes"), None, True),
    ],
)
def test_a_server_on_another_machine_is_not_loaded_without_asking(
    server: StubServer, run: Timeball, measured: list[int], arguments: tuple[str, ...], stdin: str | None, goes: bool
) -> None:
    server.on("GET", "/v1/workers", {"items": [worker()]})
    result = run(*arguments, "--token", "x", "--jobs", "300", stdin=stdin)
    assert measured == ([300] if goes else [])
    assert (result.exit_code == 0) == goes
    assert bool(server.seen) == goes, "nothing is sent before somebody agrees"
    if "--yes" not in arguments and arguments:
        assert "Run 550 jobs on http" in result.output


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        ([], "there is no worker"),
        ([worker(labels=["gpu"], dedicated=True)], "there is no worker that accepts jobs without a label"),
        (
            [worker(), worker("old", tasks=["etl"], version="0.9")],
            "worker old (version 0.9) does not have timeball.noop",
        ),
    ],
)
def test_nothing_is_submitted_that_no_worker_could_run(
    server: StubServer, run: Timeball, measured: list[int], workers: list[dict[str, Any]], said: str
) -> None:
    server.on("GET", "/v1/workers", {"items": workers})
    result = run()
    assert result.exit_code == 6
    assert said in result.stderr
    assert measured == []


def test_figures_stand_beside_what_was_run(server: StubServer, run: Timeball, measured: list[int]) -> None:
    server.on("GET", "/v1/workers", {"items": [worker(), worker("other", labels=["gpu"])]})
    shown = dict(line.split("\t", 1) for line in run("--jobs", "300").stdout.splitlines())
    assert shown == {
        "server": "http://127.0.0.1:1300",
        "workers": "2 with 64 slots together, version 1.2",
        "jobs": "no-op; 50 one by one, 300 in batches of 500, 200 due one after the other within 5 s",
        "one job accepted": "p50 51.0 ms, p99 100.0 ms, max 100.0 ms",
        "one job picked up": "p50 5.1 ms, p99 5.1 ms, max 5.1 ms",
        "ingest": "12,346 jobs/s",
        "life cycle": "8,000 jobs/s",
        "start lateness": "p50 1.0 ms, p99 1.0 ms, max 1.0 ms",
    }
    found = json.loads(run("-o", "json").stdout)
    assert found["jobs"]["atOnce"] == 5_000
    assert found["acceptedMs"] == {"p50": 51.0, "p99": 100.0, "max": 100.0}
    assert [each["name"] for each in found["workers"]] == ["rack", "other"]


def test_jobs_that_did_not_succeed_are_told(server: StubServer, run: Timeball, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = Run(run_id=RUN_ID, status="dead", error=Failure(message="the worker is broken"))
    bad = Figures(**{name: getattr(GOOD, name) for name in Figures.__slots__} | {"unwell": [dead, dead]})
    monkeypatch.setattr(load_test, "measure", lambda client, jobs, say: bad)
    server.on("GET", "/v1/workers", {"items": [worker()]})
    result = run()
    assert result.exit_code == 1
    assert f"2 jobs did not succeed; {RUN_ID} dead: the worker is broken" in result.stderr


def test_jobs_that_do_not_end_are_not_waited_for_for_ever(
    server: StubServer, run: Timeball, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_test, "PROGRESS_TIMEOUT", 0.0)
    server.on("GET", "/v1/workers", {"items": [worker()]})
    server.on("POST", "/v1/jobs", {"jobId": JOB_ID}, status=201)
    server.on("GET", f"/v1/jobs/{JOB_ID}/status", {"jobId": JOB_ID, "status": "queued"})
    result = run()
    assert result.exit_code == 124
    assert f"0 of 1 jobs have ended, and no other one for 0 s; `timeball why {JOB_ID}` may show" in result.stderr
