"""The soak on one store: its processes, its phases, and the counts at the end."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.processes import memory_mib
from tests.soak import tasks
from tests.soak.load import TAG, Load, Promised
from tests.soak.report import Report, Start
from tests.soak.target import bad_target
from tests.support.postgres import PostgresServer
from tests.support.processes import Api, Process, data_dir, free_port, start_worker, until, worker_key

STORES = ("sqlite", "postgresql")
SLOTS = 64
SAMPLE_EVERY = 1.0
"""Seconds between two samples of memory."""
AFTERMATH = 5.0
"""Seconds after an attack that still count as attacked: what was sent is worked off."""
END_SECONDS = 180.0
LIVE = ("scheduled", "blocked", "queued", "running", "retrying")


@dataclass(frozen=True)
class Sizes:
    pairs: int
    """A phase without attackers and one with them."""
    phase: float
    """Seconds."""
    rate: float
    """Honest jobs per second."""
    strangers: int = 1_000


def campaign(store: str, folder: Path, sizes: Sizes) -> Report:
    report = Report(store)
    with house(store, folder) as (api, processes, witness), bad_target() as target:
        load = Load(api.url, sizes.rate, witness)
        case = {
            "url": api.url,
            "target": target,
            "editor": _key(api, "admin"),
            "worker": worker_key(api),
            "seconds": sizes.phase,
            "strangers": sizes.strangers,
        }
        attacked: list[tuple[float, float]] = []
        load.start()
        try:
            with _sampled(processes, report):
                for pair in range(1, sizes.pairs + 1):
                    time.sleep(sizes.phase)
                    began = time.time()
                    _attack(folder, {**case, "phase": pair}, report)
                    attacked.append((began, time.time() + AFTERMATH))
                    _say(f"{store}: pair {pair} of {sizes.pairs}: {len(load.promised):,} honest jobs accepted")
        finally:
            load.stop()
        _await_end(api)
        _count(api, report, load, witness, attacked)
    return report


@contextlib.contextmanager
def house(store: str, folder: Path) -> Iterator[tuple[Api, dict[str, Process], Path]]:
    """`up` on SQLite, or a server and a worker on PostgreSQL."""
    port, witness = free_port(), folder / "witness"
    witness.touch(0o600)
    environment = {tasks.FILE: str(witness)}
    common = ["--port", str(port), "--data-dir", str(data_dir(folder))]
    executes = ["--tasks", tasks.__name__, "--slots", str(SLOTS)]
    with contextlib.ExitStack() as stack:
        if store == "sqlite":
            server = stack.enter_context(Process(folder, ["up", *common, *executes], environment))
        else:
            postgres = stack.enter_context(PostgresServer.start(fsync=True))
            server = stack.enter_context(Process(folder, ["server", *common, "--store", postgres.create_database()]))
        processes = {"server": server}
        api = stack.enter_context(Api(f"http://127.0.0.1:{port}"))
        api.await_ready(server)
        if store != "sqlite":
            worker = start_worker(folder, api, name="w", slots=SLOTS, tasks=tasks.__name__, environment=environment)
            processes["worker"] = stack.enter_context(worker)
        api.await_workers(1)
        yield api, processes, witness
        for name, process in processes.items():
            assert process.popen.poll() is None, f"the {name} ended:\n{process.output[-3000:]}"


def _attack(folder: Path, case: dict[str, Any], report: Report) -> None:
    path = folder / "case.json"
    path.write_text(json.dumps(case))
    arguments = ["nice", "-n", "10", sys.executable, "-m", "tests.soak.attack", str(path)]
    attack = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    try:
        answers, _ = attack.communicate(timeout=case["seconds"] + 60)
    finally:
        attack.kill()
        attack.wait()
    report.attacks.update(json.loads(answers.splitlines()[-1]))


@contextlib.contextmanager
def _sampled(processes: dict[str, Process], report: Report) -> Iterator[None]:
    """Sample the memory of every process, the guard of the worker included."""
    stopping = threading.Event()
    report.memory_mib.update({name: [] for name in processes})

    def sample() -> None:
        while not stopping.wait(SAMPLE_EVERY):
            for name, process in processes.items():
                report.memory_mib[name].append(memory_mib(process.pid))
                with contextlib.suppress(psutil.NoSuchProcess):
                    for child in psutil.Process(process.pid).children():
                        with contextlib.suppress(psutil.NoSuchProcess):
                            if any("guard_program" in word for word in child.cmdline()):
                                report.memory_mib.setdefault(f"guard of {name}", []).append(memory_mib(child.pid))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _key(api: Api, role: str) -> str:
    return str(api.call("POST", "/v1/api-keys", expect=(200, 201), json={"role": role, "name": "attacker"})["key"])


def _await_end(api: Api) -> None:
    def ended() -> bool:
        return not any(api.call("GET", f"/v1/runs?tag={TAG}&status={status}&limit=1")["items"] for status in LIVE)

    until(ended, "all honest runs to end", END_SECONDS)


def _count(api: Api, report: Report, load: Load, witness: Path, attacked: list[tuple[float, float]]) -> None:
    """Compare what clients were promised with the witness and with the server's records."""
    report.accepted, report.refusals = len(load.promised), load.refusals
    lines = [line.split() for line in witness.read_text().splitlines()]
    ran = Counter(job_id for job_id, *_ in lines)
    report.missing = sum(job_id not in ran for job_id in load.promised)
    report.doubled = sum(count > 1 for count in ran.values())
    for job_id, _, due, started in lines:
        promise = load.promised.get(job_id)
        if promise is not None:
            report.starts.append(_start(promise, int(due), int(started), attacked))
    for run in _pages(api, f"/v1/runs?tag={TAG}&limit=500"):
        if run["jobId"] in load.promised:
            report.ends[f"{run['status']} in attempt {run['attempt']}"] += 1
    for job_id in load.schedules:
        report.ledger.update(api.call("GET", f"/v1/jobs/{job_id}/ledger")["counts"])


def _start(promise: Promised, due: int, started: int, attacked: list[tuple[float, float]]) -> Start:
    """A job that was accepted after its due instant is late from its acceptance on."""
    late = (started - max(due, promise.accepted)) / 1_000
    return Start(promise.kind, any(began <= due / 1e6 < ended for began, ended in attacked), late)


def _pages(api: Api, path: str) -> Iterator[dict[str, Any]]:
    cursor = ""
    while True:
        page = api.call("GET", f"{path}{cursor}")
        yield from page["items"]
        if not page.get("nextCursor"):
            return
        cursor = f"&cursor={page['nextCursor']}"


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)
