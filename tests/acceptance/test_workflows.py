"""A workflow under kill -9: each task gets one run, after all tasks that it needs, with failures and retries (I19)."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import Api, free_port, running_server, running_up, start_worker, until
from tests.support.thorough import THOROUGH

LAYERS, WIDTH = (14, 7) if THOROUGH else (4, 5)
"""With the first and the last task, a hundred; or two dozen."""
WITNESS = (
    'echo "$TIMEBALL_RUN_ID begin {name}" >> {file}; [ $TIMEBALL_ATTEMPT -gt {failures} ] || exit 1;'
    ' echo "$TIMEBALL_RUN_ID end {name}" >> {file}'
)

pytestmark = pytest.mark.timeout(300)


def diamond(file: Path) -> list[dict[str, Any]]:
    """Layers between a first and a last task: each task needs two of the layer before. Every third fails once."""
    tasks = [("first", [])]
    for layer in range(LAYERS):
        for place in range(WIDTH):
            above = [f"t{layer - 1}-{place}", f"t{layer - 1}-{(place + 1) % WIDTH}"] if layer else ["first"]
            tasks.append((f"t{layer}-{place}", above))
    tasks.append(("last", [f"t{LAYERS - 1}-{place}" for place in range(WIDTH)]))
    return [
        {
            "name": name,
            "needs": needs,
            "task": {"kind": "shell", "command": WITNESS.format(name=name, file=file, failures=int(at % 3 == 2))},
            "retry": {"maxRetries": 5, "backoff": ["0s"]},
        }
        for at, (name, needs) in enumerate(tasks)
    ]


def begin(api: Api, tasks: list[dict[str, Any]]) -> str:
    workflow = api.call("POST", "/v1/workflows", expect=201, json={"name": "diamond", "tasks": tasks})
    return str(api.call("GET", f"/v1/workflows/{workflow['workflowId']}/runs")["items"][0]["runId"])


def lines(file: Path) -> list[list[str]]:
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def ended(api: Api, run_id: str) -> dict[str, Any] | None:
    shown: dict[str, Any] = api.call("GET", f"/v1/workflow-runs/{run_id}")
    return shown if shown["endTime"] is not None else None


def check(file: Path, tasks: list[dict[str, Any]], shown: dict[str, Any]) -> Counter[str]:
    """Answers how often each task came to its end."""
    assert (shown["status"], shown["counts"]) == ("succeeded", {"succeeded": len(tasks)})
    runs: dict[str, set[str]] = defaultdict(set)
    first_begin: dict[str, int] = {}
    first_end: dict[str, int] = {}
    ends: Counter[str] = Counter()
    for at, (run_id, what, name) in enumerate(lines(file)):
        runs[name].add(run_id)
        (first_begin if what == "begin" else first_end).setdefault(name, at)
        ends[name] += what == "end"
    assert {name: len(of_one) for name, of_one in runs.items()} == {task["name"]: 1 for task in tasks}
    assert {task["name"]: task["runId"] for task in shown["tasks"]} == {name: one for name, (one,) in runs.items()}
    for task in tasks:
        for need in task["needs"]:
            assert first_end[need] < first_begin[task["name"]], f"{task['name']} began before {need} had ended"
    return ends


def test_kill_9_of_a_server_loses_and_doubles_no_task(tmp_path: Path, postgres_dsn: str) -> None:
    tmp_path.chmod(0o755)
    file, port = tmp_path / "witness", free_port()
    tasks = diamond(file)
    with running_server(tmp_path, postgres_dsn, port) as (server, api), start_worker(tmp_path, api, name="w", slots=8):
        run_id = begin(api, tasks)
        until(lambda: len(lines(file)) > len(tasks) // 2, "some of the tasks")
        server.kill()
        with running_server(tmp_path, postgres_dsn, port) as (_, again):
            shown = until(lambda: ended(again, run_id), "the workflow run to end", 120)
    ends = check(file, tasks, shown)
    assert set(ends.values()) == {1}, "the worker lived, and nothing it did is done again"


@pytest.mark.skipif(not THOROUGH, reason="TIMEBALL_THOROUGH is not set")
def test_kill_9_of_all_that_there_is_repeats_only_what_was_interrupted(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    file, port = tmp_path / "witness", free_port()
    tasks = diamond(file)
    with running_up(tmp_path, port) as (process, api):
        api.await_workers(1)
        run_id = begin(api, tasks)
        until(lambda: len(lines(file)) > len(tasks) // 2, "some of the tasks")
        process.kill()
    with running_up(tmp_path, port) as (_, api):
        shown = until(lambda: ended(api, run_id), "the workflow run to end", 120)
    ends = check(file, tasks, shown)
    assert sum(count > 1 for count in ends.values()) <= 8, "no more than were running"
