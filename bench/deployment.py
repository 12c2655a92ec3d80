"""Timeball as users run it: real processes, default settings, full durability."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2 as httpx

from bench import database, processes
from bench.database import Database
from tests.support.postgres import PostgresServer

KEY = "benchmark-key-benchmark-key-benchmark-key"
STORES = ("sqlite", "postgresql")
IN_PROCESS = "in process"
SEPARATE = "separate, over HTTP"
NONE = "none"
WORKERS = (IN_PROCESS, SEPARATE)
USUAL_WORKER = {"sqlite": IN_PROCESS, "postgresql": SEPARATE}
"""The usual place of the worker for each store: in the same process, or in a fleet."""

DISK = "/var/tmp" if os.access("/var/tmp", os.W_OK) else None
"""The parent of the data folders. Not /tmp, where jobs have their folders: a worker whose data folder is in the same
folder makes its Landlock rules anew for each of these jobs, which costs several milliseconds of CPU. And /tmp may be in
memory.
"""


class Trouble(Exception):
    """Raised if a section cannot be measured."""


@dataclass
class Deployment:
    """A running Timeball, with access to its processes and its database."""

    store: str
    worker: str
    url: str
    folder: Path
    postgres: PostgresServer | None
    dsn: str
    slots: int | None
    """None: the default."""
    source: Path | None
    """The folder with the `timeball` package to run; None: the installed one."""
    counting: bool = False
    """True if the calls of functions are counted, which makes the processes several times as slow."""
    tasks: str = "bench.tasks"
    """The module with the functions of the worker."""
    submitted: int = 0
    """Number of jobs that were accepted so far."""
    serves: tuple[str, ...] = ()
    """The tenants that a separate worker serves; empty: the default one."""
    residents: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    """Processes by role: `up`, `server`, `worker`."""

    def __post_init__(self) -> None:
        self._counter = self.folder / "executed"
        self._executed = _shared_counter(self._counter)
        self._calls: list[memoryview] = []
        self._lock = threading.Lock()

    @property
    def witness(self) -> Path:
        """The file in which jobs record when they started."""
        return self.folder / "witness"

    @property
    def scripts(self) -> Path:
        """The folder with the scripts of script jobs."""
        return self.folder / "scripts"

    @property
    def executed(self) -> int:
        """The number of jobs that the worker has executed. The worker counts them in shared memory."""
        return int(self._executed[0])

    def submit(self, jobs: int) -> None:
        """Count jobs that are submitted. Several threads may do so."""
        with self._lock:
            self.submitted += jobs

    @property
    def calls(self) -> int:
        """The number of calls that all processes have made, if they are counted."""
        return sum(int(counter[0]) for counter in self._calls)

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=60)

    # --- processes ------------------------------------------------------------------------------------------------

    def start(self, role: str) -> None:
        """Start a process (`up`, `server` or `worker`). Return when it is ready."""
        data = ["--data-dir", str(self.folder / "data")]
        where = [*data, "--port", self.url.rpartition(":")[2], *(["--store", self.dsn] if self.postgres else [])]
        slots = [] if self.slots is None else ["--slots", str(self.slots)]
        workers = [*slots, "--tasks", self.tasks, "--scripts-dir", str(self.scripts)]
        if role == "worker":
            rules = {"role": "worker", "name": "bench"} | ({"tenants": list(self.serves)} if self.serves else {})
            with self.client() as client:
                key = client.post("/v1/api-keys", json=rules).json()["key"]
            self._launch("worker", ["--server", self.url, "--token", key, *workers])
            self._await("a worker", lambda client: bool(client.get("/v1/workers").json()["items"]))
        else:
            self._launch(role, [*where, *(workers if role == "up" else [])])
            self._await("the server", lambda client: client.get("/readyz").status_code == 200)

    def stop(self, role: str) -> None:
        """Stop a process with a signal, and wait for its end. Raise `Trouble` if it had ended by itself."""
        process = self.residents.pop(role)
        ended_early = process.poll() is not None
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if ended_early:
            raise Trouble(f"timeball {role} ended early:\n{self._log(role).read_text()[-2000:]}")

    def _launch(self, role: str, arguments: list[str]) -> None:
        ours = {
            "TIMEBALL_ADMIN_KEY": KEY,
            "TIMEBALL_BENCH_WITNESS": str(self.witness),
            "TIMEBALL_BENCH_EXECUTED": str(self._counter),
        }
        if self.source is not None:
            ours["PYTHONPATH"] = str(self.source)
        with self._log(role).open("ab") as log:
            command = [sys.executable, "-m", *self._module(role), role, *arguments]
            process = subprocess.Popen(command, env=os.environ | ours, stdout=log, stderr=subprocess.STDOUT)
        self.residents[role] = process

    def _module(self, role: str) -> list[str]:
        if not self.counting:
            return ["timeball"]
        path = self.folder / f"calls-{role}"
        self._calls.append(_shared_counter(path))
        return ["bench.counted", str(path)]

    def _log(self, role: str) -> Path:
        return self.folder / f"{role}.log"

    def _await(self, whom: str, condition: Callable[[httpx.Client], bool]) -> None:
        deadline = time.monotonic() + 60
        with self.client() as client:
            while time.monotonic() < deadline:
                with contextlib.suppress(httpx.TransportError):
                    if condition(client):
                        return
                time.sleep(0.02)
        logs = "\n".join(path.read_text()[-2000:] for path in self.folder.glob("*.log"))
        raise Trouble(f"{whom} did not come up within 60 s:\n{logs}")

    # --- what it costs --------------------------------------------------------------------------------------------

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time so far, by process; `load` is the benchmark itself."""
        spent = {name: processes.cpu_seconds(pid) for name, pid in self._pids().items()}
        if self.postgres is not None:
            spent["postgres"] = processes.cpu_seconds(self.postgres.pid, family=True)
        return spent | {"load": time.process_time()}

    def memory_mib(self) -> dict[str, float]:
        """Return the memory of each process, without mapped files and shared memory."""
        used = {name: processes.memory_mib(pid) for name, pid in self._pids().items()}
        if self.postgres is not None:
            used["postgres"] = processes.memory_mib(self.postgres.pid, family=True)
        return used

    def resident_mib(self) -> float:
        """Return the resident memory of all processes of Timeball, mapped files included."""
        return sum(processes.resident_mib(pid) for pid in self._pids().values())

    def _pids(self) -> dict[str, int]:
        """Return the process ids by role. `up` is a server with a worker in it."""
        return {"server" if role == "up" else role: process.pid for role, process in self.residents.items()}

    # --- the database ---------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def database(self, *, writable: bool = False) -> Iterator[Database]:
        """Open the database. On SQLite, write only while no server runs."""
        path = self.folder / "data/timeball.db"
        opened = database.postgresql(self.dsn) if self.postgres else database.sqlite(path, writable=writable)
        with opened as found:
            yield found

    def count(self, sql: str) -> int:
        """Return the single number that a query finds."""
        with self.database() as opened:
            value: Any = opened.rows(sql)[0][0]
        return int(value)

    def await_executed(self, jobs: int, seconds: float = 300) -> None:
        """Wait until this number of jobs was executed since the beginning."""
        deadline = time.monotonic() + seconds
        while (executed := self.executed) < jobs:
            if time.monotonic() > deadline:
                raise Trouble(f"only {executed:,} of {jobs:,} jobs were executed within {seconds:g} s")
            time.sleep(0.005)

    def await_rest(self, seconds: float = 300) -> None:
        """Wait until all jobs were executed and no run is alive, which is when every result is durable."""
        self.await_executed(self.submitted, seconds)
        self.await_no_runs(seconds)

    def await_no_runs(self, seconds: float = 300, *, pause: float = 0.005) -> None:
        """Wait until no run is alive. The jobs must have been accepted before. `pause` is the time between two looks
        into the database, which cost CPU.
        """
        deadline = time.monotonic() + seconds
        with self.database() as opened:
            while opened.rows("SELECT 1 FROM runs LIMIT 1"):
                if time.monotonic() > deadline:
                    raise Trouble(f"runs were still alive after {seconds:g} s")
                time.sleep(pause)


@contextlib.contextmanager
def deployed(
    store: str,
    worker: str,
    slots: int | None,
    *,
    source: Path | None = None,
    counting: bool = False,
    tasks: str = "bench.tasks",
    serves: tuple[str, ...] = (),
) -> Iterator[Deployment]:
    """Start Timeball with the worker in the process of the server, in a process of its own, or with no worker yet
    (`NONE`). Without `slots`, it has the default.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="timeball-bench-", dir=DISK)))
        postgres = stack.enter_context(PostgresServer.start(fsync=True)) if store == "postgresql" else None
        dsn = postgres.create_database() if postgres else f"sqlite:///{folder}/data/timeball.db"
        url = f"http://127.0.0.1:{_free_port()}"
        running = Deployment(store, worker, url, folder, postgres, dsn, slots, source, counting, tasks, serves=serves)
        stack.callback(_stop_all, running)
        running.start("up" if worker == IN_PROCESS else "server")
        if worker == SEPARATE:
            running.start("worker")
        yield running


def _stop_all(running: Deployment) -> None:
    """Stop workers first, because they report to the server when they stop."""
    with contextlib.ExitStack() as stack:
        for role in [*running.residents]:
            stack.callback(running.stop, role)


def _shared_counter(path: Path) -> memoryview:
    path.write_bytes(bytes(8))
    with path.open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
