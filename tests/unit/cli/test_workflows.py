"""`timeball workflows` against a stub server: what it sends, and what it prints."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.stub_server import StubServer
from timeball.cli import session
from timeball.cli.root import timeball

ID = "j_0194f3a1c2b79f86d081884c7d65"
RUN = "r_0194f3a1c2b79f86d081884c7d65"
TASKS = [
    {"name": "extract", "task": {"kind": "shell", "command": "true"}},
    {"name": "load", "taskId": "load", "needs": ["extract"], "runIf": "always"},
]
WORKFLOW = {
    "workflowId": ID,
    "jobId": ID,
    "name": "nightly",
    "status": "scheduled",
    "tasks": TASKS,
    "schedule": {"type": "cron", "expression": "0 2 * * *"},
}
WORKFLOW_RUN = {
    "workflowRunId": RUN,
    "workflowId": ID,
    "name": "nightly",
    "status": "failed",
    "retryOf": RUN,
    "error": {"kind": "tasks", "message": "task load: exit code 3"},
    "tasks": [
        {"name": "extract", "status": "succeeded", "runId": RUN},
        {"name": "load", "status": "failed", "reason": "exit code 3", "instances": 3, "instancesOpen": 0},
    ],
}
Timeball = Callable[..., Result]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> StubServer:
    server = StubServer()
    monkeypatch.setattr(session, "make_transport", lambda: server)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return server


@pytest.fixture
def run(server: StubServer) -> Timeball:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(timeball, ["workflows", *arguments], prog_name="timeball")

    return run


def test_create_sends_the_tasks_of_a_file(run: Timeball, server: StubServer, tmp_path: Path) -> None:
    (tmp_path / "nightly.json").write_text(json.dumps({"tasks": TASKS}))
    server.on("POST", "/v1/workflows", WORKFLOW)
    answer = run("create", "nightly", "--file", "nightly.json", "--cron", "0 2 * * *", "--idempotency-key", "k")
    assert answer.exit_code == 0, answer.output
    assert answer.stdout == f"{ID}\n"
    sent = server.last
    assert sent.json == {
        "name": "nightly",
        "tasks": TASKS,
        "schedule": {"type": "cron", "expression": "0 2 * * *"},
    }


def test_a_run_is_shown_with_all_its_tasks(run: Timeball, server: StubServer) -> None:
    server.on("GET", f"/v1/workflow-runs/{RUN}", WORKFLOW_RUN)
    answer = run("status", RUN)
    assert answer.exit_code == 0, answer.output
    assert "task load: exit code 3" in answer.stdout
    assert "failed (3 instances): exit code 3" in answer.stdout


def test_a_run_is_retried_and_cancelled(run: Timeball, server: StubServer) -> None:
    server.on("POST", f"/v1/workflow-runs/{RUN}/retry", WORKFLOW_RUN)
    server.on("POST", f"/v1/workflow-runs/{RUN}/cancel", WORKFLOW_RUN)
    assert run("retry", RUN).stdout == f"{RUN}\n"
    assert run("cancel", RUN).stdout == f"{RUN}\n"


def test_workflows_are_listed_and_shown(run: Timeball, server: StubServer) -> None:
    server.on("GET", "/v1/workflows", {"items": [WORKFLOW], "nextCursor": None})
    server.on("GET", f"/v1/workflows/{ID}", WORKFLOW)
    assert "nightly\tscheduled\t2" in run("list").stdout
    assert "load after extract, if always" in run("show", ID).stdout
