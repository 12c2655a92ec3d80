"""Thousands of connections without a key, beside honest clients: no job is lost or doubled, no attempt is spent, and
the memory of the server is bounded and flat (I28, I29)."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2 as httpx
import psutil
import pytest

from tests.acceptance import stranger_tasks
from tests.support.processes import Api, Process, data_dir, free_port, start_worker, until
from tests.support.thorough import THOROUGH

STRANGERS, SECONDS, JOBS_PER_SECOND = (2_000, 300, 200) if THOROUGH else (300, 8, 40)
DESCRIPTORS = None if THOROUGH else (256, 256)
"""The limit of the server: fewer than there are strangers, unless all of them are to be there."""
CLIENTS = 4
SHELL_EVERY = 20
MEMORY_GROWTH = 250 * 1024 * 1024
"""Bytes that all of that may cost at any moment."""
MEMORY_SLOPE = 1.1
"""How much more memory the last quarter may take than the one before, once all kinds of strangers have been there."""

pytestmark = pytest.mark.timeout(SECONDS * 2 + 300)


@dataclass
class Traffic:
    """Jobs at a steady rate, or as fast as a busy machine takes them, each until it was accepted."""

    api: Api
    accepted: list[str] = field(default_factory=list)
    problems: Counter[str] = field(default_factory=Counter)

    def submit(self, client: int) -> None:
        rate = JOBS_PER_SECOND / CLIENTS
        began = time.monotonic()
        with Api(self.api.url) as api:
            for number in range(int(rate * SECONDS)):
                time.sleep(max(0.0, began + number / rate - time.monotonic()))
                if time.monotonic() - began > SECONDS:
                    return
                self.accepted.append(self._submit(api, f"{client}-{number}", number))

    def _submit(self, api: Api, name: str, number: int) -> str:
        task: dict[str, Any] = {"kind": "python", "function": "witnessed"}
        if number % SHELL_EVERY == 0:
            task = {"kind": "shell", "command": f'echo "$TIMEBALL_JOB_ID 1" >> "{self.witness}"'}
        job = {"name": name, "task": task, "retry": {"maxRetries": 0}, "delivery": "at_most_once"}
        for _ in range(100):
            try:
                answer = api.http.post("/v1/jobs", json=job, headers={"Idempotency-Key": name})
            except httpx.TransportError as error:
                self.problems[type(error).__name__] += 1
            else:
                if answer.status_code in (200, 201):
                    return str(answer.json()["jobId"])
                self.problems[str(answer.status_code)] += 1
            time.sleep(0.1)
        raise AssertionError(f"job {name} was never accepted: {self.problems}")

    witness: Path = Path()


@contextlib.contextmanager
def house(kind: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Process, Api, int, Path]]:
    port = free_port()
    witness = folder / "witness"
    more = {stranger_tasks.FILE: str(witness)}
    common = ["--port", str(port), "--data-dir", str(data_dir(folder))]
    with contextlib.ExitStack() as stack:
        if kind == "up on SQLite":
            options = ["up", *common, "--tasks", stranger_tasks.__name__, "--slots", "16"]
            process = stack.enter_context(Process(folder, options, more, descriptors=DESCRIPTORS))
        else:
            dsn = request.getfixturevalue("postgres_dsn")
            options = ["server", *common, "--store", dsn]
            process = stack.enter_context(Process(folder, options, descriptors=DESCRIPTORS))
        api = stack.enter_context(Api(f"http://127.0.0.1:{port}"))
        api.await_ready(process)
        if kind != "up on SQLite":
            worker = start_worker(
                folder,
                api,
                name="w",
                slots=16,
                tasks=stranger_tasks.__name__,
                environment=more,
                descriptors=DESCRIPTORS,
            )
            stack.enter_context(worker)
        api.await_workers(1)
        yield process, api, port, witness


def all_runs(api: Api, count: int) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    cursor = ""
    while True:
        page = api.call("GET", f"/v1/runs?limit=500{cursor}")
        found |= {run["jobId"]: run for run in page["items"]}
        if not page.get("nextCursor"):
            return found
        cursor = f"&cursor={page['nextCursor']}"


@pytest.mark.parametrize(
    "kind", ["up on SQLite", pytest.param("server and worker on PostgreSQL", marks=pytest.mark.parts)]
)
def test_strangers_cost_honest_work_nothing(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, record_property: Any
) -> None:
    with house(kind, tmp_path, request) as (process, api, port, witness):
        traffic = Traffic(api, witness=witness)
        server = psutil.Process(process.pid)
        before = server.memory_info().rss
        memory: list[int] = []
        descriptors: list[int] = []
        arguments = [sys.executable, "-m", "tests.support.strangers", str(port), str(STRANGERS), str(SECONDS)]
        attack = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        try:
            clients = [threading.Thread(target=traffic.submit, args=(number,)) for number in range(CLIENTS)]
            for client in clients:
                client.start()
            while any(client.is_alive() for client in clients):
                memory.append(server.memory_info().rss)
                descriptors.append(server.num_fds())
                time.sleep(SECONDS / 100)
            for client in clients:
                client.join()
            told, _ = attack.communicate(timeout=SECONDS + 60)
        finally:
            attack.kill()
            attack.wait()
        closed = json.loads(told)

        expected = {*traffic.accepted}
        assert len(expected) == len(traffic.accepted) > SECONDS

        def settled() -> dict[str, dict[str, Any]] | None:
            runs = all_runs(api, len(expected))
            done = all(run["status"] not in ("scheduled", "queued", "running", "retrying") for run in runs.values())
            return runs if done and expected <= {*runs} else None

        runs = until(settled, "all runs to end", 120)
        lines = Counter(witness.read_text().split("\n")[:-1])
        report = {
            "kind": kind,
            "jobs": len(expected),
            "jobs/s": len(expected) / SECONDS,
            "statuses": dict(Counter((run["status"], run["attempt"]) for run in runs.values())),
            "not succeeded": [run for run in runs.values() if run["status"] != "succeeded"][:5],
            "closed": closed,
            "problems of honest clients": dict(traffic.problems),
            "memory MiB before": before >> 20,
            "memory MiB": [each >> 20 for each in memory[:: max(1, len(memory) // 20)]],
            "descriptors": max(descriptors),
        }
        print(report)
        assert {(run["status"], run["attempt"]) for run in runs.values()} == {("succeeded", 1)}
        assert lines == Counter(f"{job} 1" for job in expected), "each ran once, in its first attempt"
        assert sum(closed.values()) >= STRANGERS
        assert max(memory) - before < MEMORY_GROWTH
        quarter = len(memory) // 4
        third, last = sorted(memory[2 * quarter : 3 * quarter]), sorted(memory[3 * quarter :])
        assert not THOROUGH or last[len(last) // 2] <= third[len(third) // 2] * MEMORY_SLOPE
        assert DESCRIPTORS is None or max(descriptors) < DESCRIPTORS[1]
