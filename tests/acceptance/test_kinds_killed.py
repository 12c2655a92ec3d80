"""kill -9 and stops in the middle of each kind of job: only what was executing is affected, and no process survives.

The scene runs one job of each kind on one worker, and goes through the deaths that are possible. There is no fork
server: the guard starts all job processes.
"""

from __future__ import annotations

import http.server
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.processes import Api, Process, data_dir, is_alive, running_server, start_worker, until

pytestmark = pytest.mark.timeout(300)

IN_PROCESSES = {"shell", "script", "process"}
IN_WORKER = {"http", "async", "thread"}
WITNESS = 'echo "$TIMEBALL_ATTEMPT $$" >> {file}; '
RETRY = {"maxRetries": 9, "backoff": ["0s"]}
TASKS = """
import asyncio, os, time
import timeball

def note(path, ctx):
    with open(path, "a") as file:
        file.write(f"{ctx.attempt} {os.getpid()}\\n")

@timeball.task("killed.async")
async def waits(path: str, ctx: timeball.Context) -> None:
    note(path, ctx)
    await asyncio.sleep(3600)

@timeball.task("killed.thread")
def polls(path: str, ctx: timeball.Context) -> None:
    note(path, ctx)
    while not ctx.cancelled:
        time.sleep(0.05)

@timeball.task("killed.process", mode="process")
def sleeps(path: str, ctx: timeball.Context) -> None:
    note(path, ctx)
    time.sleep(3600)
"""


class Scene:
    def __init__(self, folder: Path, url: str, calls: list[str]) -> None:
        self.folder = folder
        self.url = url
        self.calls = calls
        """The attempts that the target of the http job has seen."""

    def file(self, kind: str) -> Path:
        return self.folder / f"{kind}-witness"

    def began(self) -> dict[str, list[str]]:
        """The attempts that have begun, by kind."""
        files = {kind: self.file(kind) for kind in ("shell", "script", "async", "thread", "process")}
        found = {kind: [line.split()[0] for line in lines(file)] for kind, file in files.items()}
        return {**found, "http": list(self.calls)}

    def pids(self) -> dict[str, int]:
        """The process of the last attempt of each kind that has one."""
        return {kind: int(lines(self.file(kind))[-1].split()[1]) for kind in IN_PROCESSES}

    def create(self, api: Api, **more: Any) -> dict[str, str]:
        tasks: dict[str, dict[str, Any]] = {
            "http": {"kind": "http", "url": self.url, "breaker": False},
            "shell": {"kind": "shell", "command": WITNESS.format(file=self.file("shell")) + "sleep 3600"},
            "script": {"kind": "script", "script": "long.sh", "args": [str(self.file("script"))]},
        }
        tasks |= {kind: {"kind": "python", "function": f"killed.{kind}"} for kind in ("async", "thread", "process")}
        jobs = {}
        for kind, task in tasks.items():
            parameters = {"path": str(self.file(kind))} if task["kind"] == "python" else {}
            jobs[kind] = api.create({"task": task, "parameters": parameters, "retry": RETRY, "grace": "2s", **more})
        return jobs


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


@contextmanager
def silent_target() -> Iterator[tuple[str, list[str]]]:
    """A target that reads requests and never answers."""
    calls: list[str] = []
    over = threading.Event()

    class Silent(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            calls.append(self.headers["X-Timeball-Attempt"])
            over.wait()

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", calls
    finally:
        over.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    tmp_path.chmod(0o755)
    (tmp_path / "killed.py").write_text(TASKS)
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "long.sh").write_text('echo "$TIMEBALL_ATTEMPT $$" >> "$1"; sleep 3600\n')
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with silent_target() as (url, calls):
        yield Scene(tmp_path, url, calls)


def worker(scene: Scene, api: Api, name: str) -> Process:
    flags = ("--scripts-dir", str(scene.folder / "scripts"))
    return start_worker(scene.folder, api, name=name, slots=8, tasks="killed", flags=flags)


def guard_of(worker: Process) -> psutil.Process:
    (guard,) = psutil.Process(worker.pid).children()
    return guard


def children(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def test_a_death_costs_only_what_was_executing(scene: Scene) -> None:
    store = f"sqlite:///{data_dir(scene.folder)}/store.db"
    with running_server(scene.folder, store) as (_, api), worker(scene, api, "first") as first:
        jobs = scene.create(api)
        expected = {kind: ["1"] for kind in jobs}
        until(lambda: scene.began() == expected, "all kinds to begin")
        processes = scene.pids()

        os.kill(processes["process"], signal.SIGKILL)  # the warm child
        expected["process"].append("2")
        until(lambda: scene.began() == expected, "the run of the dead child to begin again, and no other")
        assert [is_alive(processes[kind]) for kind in ("shell", "script")] == [True, True]

        everything = guard_of(first).children(recursive=True)
        assert {process.pid for process in everything} >= set(scene.pids().values())
        guard_of(first).kill()
        for kind in IN_PROCESSES:
            expected[kind].append(str(len(expected[kind]) + 1))
        until(lambda: scene.began() == expected, "what the guard had started to begin again, and nothing else")
        assert not any(is_alive(process.pid) for process in everything)

        everything = guard_of(first).children(recursive=True)
        with worker(scene, api, "second"):
            api.await_workers(2)
            first.kill()
            until(lambda: not any(is_alive(process.pid) for process in everything), "all processes to end")
            for kind in jobs:
                expected[kind].append(str(len(expected[kind]) + 1))
            until(lambda: scene.began() == expected, "everything to begin again on another worker")
            outcomes = {kind: api.run_of(job) for kind, job in jobs.items()}
            assert {kind: run["executorId"] for kind, run in outcomes.items() if run} == dict.fromkeys(jobs, "second")


@pytest.mark.parametrize("how", ["cancelled", "timeout"])
def test_each_kind_stops(scene: Scene, how: str) -> None:
    """All kinds are stopped at once, and the last one ends within its grace and 2 seconds on an idle machine."""
    store = f"sqlite:///{data_dir(scene.folder)}/store.db"
    with running_server(scene.folder, store) as (_, api), worker(scene, api, "first"):
        jobs = scene.create(api, **({} if how == "cancelled" else {"timeout": "4s", "retry": {"maxRetries": 0}}))
        until(lambda: all(scene.began().values()), "all kinds to begin")
        everything = [family for pid in scene.pids().values() for family in (psutil.Process(pid), *children(pid))]
        began = time.monotonic()
        if how == "cancelled":
            for job in jobs.values():
                api.call("POST", f"/v1/runs/{api.run_of(job)['runId']}/cancel")  # type: ignore[index]
        ended = until(lambda: all(api.ended_run_of(job) for job in jobs.values()) and jobs, "all kinds to end")
        print(f"{how}: all kinds ended after {time.monotonic() - began:.1f} s")
        runs = {kind: api.ended_run_of(job) for kind, job in ended.items()}
        statuses = {kind: run["status"] for kind, run in runs.items() if run}
        assert statuses == dict.fromkeys(jobs, "cancelled" if how == "cancelled" else "dead")
        if how == "timeout":
            assert {kind: run["error"]["kind"] for kind, run in runs.items() if run} == dict.fromkeys(jobs, "timeout")
        assert all(len(attempts) == 1 for attempts in scene.began().values())
        until(lambda: not any(is_alive(process.pid) for process in everything), "their processes to end")
