"""File descriptors of real processes: the limit is raised and divided, and jobs get the original limit (I28, I29)."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.processes import KEY, Api, Process, free_port, until

SLOTS_SETTING = 200


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start(
    stack: ExitStack, folder: Path, descriptors: tuple[int, int], *arguments: str, role: str = "up"
) -> tuple[Process, Api]:
    port = free_port()
    options = ["--port", str(port), "--data-dir", str(folder / "data"), *arguments]
    process = stack.enter_context(Process(folder, [role, *options], descriptors=descriptors))
    api = stack.enter_context(Api(f"http://127.0.0.1:{port}"))
    api.await_ready(process)
    return process, api


def limit_of(process: Process) -> tuple[int, int]:
    found: tuple[int, int] = psutil.Process(process.pid).rlimit(resource.RLIMIT_NOFILE)
    return found


def shell(command: str) -> dict[str, Any]:
    return {"task": {"kind": "shell", "command": command}, "retry": {"maxRetries": 0}}


def ended(api: Api, jobs: list[str]) -> list[dict[str, Any]]:
    def look() -> list[dict[str, Any]] | None:
        runs = [api.ended_run_of(job) for job in jobs]
        return [run for run in runs if run is not None] if all(runs) else None

    return until(look, "all runs to end")


def test_a_server_raises_its_limit_and_jobs_get_the_one_before(stack: ExitStack, tmp_path: Path) -> None:
    """Programs that use select() break with descriptors above 1,023."""
    process, api = start(stack, tmp_path, (300, 4_096))
    assert limit_of(process) == (4_096, 4_096)
    [run] = ended(api, [api.create(shell("echo ::result $(ulimit -Sn)"))])
    assert api.call("GET", f"/v1/runs/{run['runId']}/result") == 300


@pytest.mark.parametrize("role", [pytest.param("up", marks=pytest.mark.parts), "worker"])
def test_a_worker_takes_no_more_than_its_descriptors_can_serve(stack: ExitStack, tmp_path: Path, role: str) -> None:
    slots = ["--slots", str(SLOTS_SETTING)]
    if role == "up":
        worker, api = start(stack, tmp_path, (300, 300), *slots)
    else:
        _, api = start(stack, tmp_path, (1_000, 1_000), role="server")
        given = ["worker", "--server", api.url, "--token", KEY, *slots]
        worker = stack.enter_context(Process(tmp_path, given, descriptors=(300, 300)))
    api.await_workers(1)
    [seen] = api.call("GET", "/v1/workers")["items"]
    assert 4 <= seen["slots"] < 60
    assert worker.output.count("descriptors") == 1
    jobs = [api.create(shell("sleep 0.3")) for _ in range(120)]
    runs = ended(api, jobs)
    assert {(run["status"], run["attempt"]) for run in runs} == {("succeeded", 1)}
    assert "returned to the queue" not in worker.output
