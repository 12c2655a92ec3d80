"""A worker without a configured number of slots executes hundreds of coroutines and HTTP calls, tens of threads and a
few processes per CPU, all at the same time. Workers share a herd."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import pytest

from tests.support.processes import Api, data_dir, running_server, running_up, start_worker, until
from timeball import host
from timeball.domain.dispatch.slot_bounds import SlotBounds

TASKS = "tests.acceptance.slot_tasks"
HERD = 10_000
BOUNDS = SlotBounds.usual(host.cpus())

pytestmark = pytest.mark.timeout(300)


def submit(api: Api, count: int, task: dict[str, Any], **more: Any) -> list[str]:
    """Submit equal jobs in one request. Return their ids."""
    job = {"task": task, "retry": {"maxRetries": 0}, **more}
    answer = api.call("POST", "/v1/jobs:batch", content="\n".join([json.dumps(job)] * count).encode())
    return [str(item["jobId"]) for item in answer["items"]]


def function(name: str, **parameters: Any) -> dict[str, Any]:
    return {"task": {"kind": "python", "function": f"slots.{name}"}, "parameters": parameters}


def running(api: Api, kinds: dict[str, str]) -> Counter[str]:
    """The number of running runs of each kind; `kinds` has the kind of each job."""
    found = api.call("GET", "/v1/runs", params={"status": "running", "limit": 1_000})["items"]
    return Counter(kinds[run["jobId"]] for run in found)


@pytest.fixture
def silent_target() -> Iterator[str]:
    """The address of a server that accepts connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=1_024) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.parts)])
def test_each_kind_of_work_has_its_own_bound_and_none_keeps_the_others_waiting(
    store: str, tmp_path: Path, silent_target: str, request: pytest.FixtureRequest
) -> None:
    database = [] if store == "sqlite" else ["--store", str(request.getfixturevalue("postgres_dsn"))]
    go, ran = tmp_path / "go", tmp_path / "ran"
    wait = f"echo x >> {ran}; until [ -e {go} ]; do sleep 0.3; done"
    herds = {
        "shell": (4 * BOUNDS.processes, {"task": {"kind": "shell", "command": wait}}),
        "thread": (2 * BOUNDS.threads, function("thread", until=str(go))),
        "http": (150, {"task": {"kind": "http", "url": silent_target}}),
        "coroutine": (150, function("coroutine", until=str(go))),
    }
    expected = {"shell": BOUNDS.processes, "thread": BOUNDS.threads, "http": 150, "coroutine": 150}
    with running_up(tmp_path, None, "--tasks", TASKS, *database) as (_, api):
        # The herds that fill their pools come first: if they held the slots, the others would not start.
        kinds = {job: kind for kind, (count, job) in herds.items() for job in submit(api, count, **job)}
        until(lambda: running(api, kinds) == expected, "each kind to fill its slots")
        worker = until(lambda: api.call("GET", "/v1/workers")["items"][0], "the worker")
        assert (worker["slots"], worker["running"]) == (BOUNDS.slots, sum(expected.values()))
        assert {pool["name"]: pool["slots"] for pool in worker["pools"]} == {
            "threads": BOUNDS.threads,
            "processes": BOUNDS.processes,
        }
        until(lambda: len(ran.read_text().split()) >= BOUNDS.processes, "the commands to begin")
        assert len(ran.read_text().split()) == BOUNDS.processes
        go.touch()
        done = herds["shell"][0] + herds["thread"][0] + herds["coroutine"][0]
        until(lambda: api.call("GET", "/v1/stats")["now"]["queued"] == 0, "all runs to start", 90)
        until(lambda: running(api, kinds).keys() <= {"http"}, "all runs but the calls to end", 90)
        ended = api.call("GET", "/v1/runs", params={"status": "succeeded", "limit": 1_000})["items"]
        assert len(ended) == done
        assert {run["attempt"] for run in ended} == {1}, "no run was claimed and handed back"


@pytest.mark.parametrize("database", [pytest.param("sqlite", marks=pytest.mark.parts), "postgres"])
def test_two_workers_share_a_herd_and_a_high_run_passes_it(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A run that arrives while two workers execute a herd waits for no more of it than each worker takes at once."""
    witness = tmp_path / "witness"
    file = data_dir(tmp_path) / "store.db"
    dsn = f"sqlite:///{file}" if database == "sqlite" else str(request.getfixturevalue("postgres_dsn"))
    with ExitStack() as stack:
        _, api = stack.enter_context(running_server(tmp_path, dsn))
        for name in ("a", "b"):
            stack.enter_context(start_worker(tmp_path, api, name=name, slots=None, tasks=TASKS))
        until(lambda: len(api.call("GET", "/v1/workers")["items"]) == 2, "both workers")
        for _ in range(HERD // 1_000):
            submit(api, 1_000, **function("short", witness=str(witness)))
        until(lambda: witness.exists() and len(witness.read_text().splitlines()) > HERD // 10, "the herd to run")
        (high,) = submit(api, 1, **function("short", witness=str(witness)), priority="high")
        accepted = time.time_ns() // 1_000  # servers, database and test have the clock of one machine
        until(lambda: len(witness.read_text().splitlines()) == HERD + 1, "the herd to end", 90)
        until(lambda: api.call("GET", "/v1/stats")["now"]["running"] == 0, "all reports")
    started = {run: int(at) for run, at in (line.split() for line in witness.read_text().splitlines())}
    assert len(started) == HERD + 1, "each run started once"
    runs = history_of_file(file) if database == "sqlite" else asyncio.run(history(dsn))
    assert max(Counter(run.worker for run in runs).values()) <= 0.6 * HERD
    (passing,) = [run for run in runs if run.job_id == high]
    held = sum(run.claimed_at <= passing.created_at for run in runs)
    assert held < HERD * 0.9, "the run arrived while most of the herd waited"
    earlier: defaultdict[str, set[int]] = defaultdict(set)
    for run in runs:
        if run.claimed_at > accepted and started[run.id] < started[passing.id]:
            earlier[run.worker].add(run.claimed_at)
    assert all(len(claims) <= 1 for claims in earlier.values()), earlier


class Ended(NamedTuple):
    """A row of the history."""

    id: str
    job_id: str
    worker: str
    claimed_at: int
    created_at: int


HISTORY = f"SELECT {', '.join(Ended._fields)} FROM history"


async def history(dsn: str) -> list[Ended]:
    connection = await asyncpg.connect(dsn)
    try:
        return [Ended(*row) for row in await connection.fetch(HISTORY)]
    finally:
        await connection.close()


def history_of_file(file: Path) -> list[Ended]:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        return [Ended(*row) for row in connection.execute(HISTORY)]
