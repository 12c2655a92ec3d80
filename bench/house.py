"""Timeball as its users run it: real processes, default settings, full durability."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2 as httpx

from tests.support.postgres import PostgresServer

KEY = "benchmark-key-benchmark-key-benchmark-key"
STORES = ("sqlite", "postgresql")
WORKERS = ("in process", "separate, over HTTP")


@dataclass(frozen=True)
class House:
    """A running Timeball and how to look into it."""

    store: str
    worker: str
    url: str
    folder: Path
    postgres: PostgresServer | None
    dsn: str

    @property
    def witness(self) -> Path:
        return self.folder / "witness"

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=60)

    def count(self, sql: str) -> int:
        """One number, straight from the database: the benchmark does not ask the system about itself."""
        if self.postgres is not None:
            return int(self.postgres.fetch_value(sql, self.dsn))
        with contextlib.closing(sqlite3.connect(f"file:{self.folder}/data/timeball.db?mode=ro", uri=True)) as database:
            return int(database.execute(sql).fetchone()[0])


@contextlib.contextmanager
def house(store: str, worker: str, slots: int) -> Iterator[House]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="timeball-bench-")))
        postgres = stack.enter_context(PostgresServer.start(fsync=True)) if store == "postgresql" else None
        dsn = postgres.create_database() if postgres else f"sqlite:///{folder}/data/timeball.db"
        port = _free_port()
        running = House(store, worker, f"http://127.0.0.1:{port}", folder, postgres, dsn)
        data = ["--data-dir", str(folder / "data")]
        where = [*data, "--port", str(port), *(["--store", dsn] if postgres else [])]
        crew = ["--slots", str(slots), "--tasks", "bench.tasks"]
        if worker == "in process":
            stack.enter_context(_process(running, ["up", *where, *crew]))
        else:
            stack.enter_context(_process(running, ["server", *where]))
        _await_ready(running)
        if worker != "in process":
            key = running.client().post("/v1/api-keys", json={"role": "worker", "name": "bench"}).json()["key"]
            stack.enter_context(_process(running, ["worker", "--server", running.url, "--token", key, *crew]))
            _await_worker(running)
        yield running


@contextlib.contextmanager
def _process(running: House, arguments: list[str]) -> Iterator[None]:
    environment = os.environ | {"TIMEBALL_ADMIN_KEY": KEY, "TIMEBALL_BENCH_WITNESS": str(running.witness)}
    log = (running.folder / f"{arguments[0]}.log").open("wb")
    command = [sys.executable, "-m", "timeball", *arguments]
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield
        if process.poll() is not None:
            raise SystemExit(f"timeball {arguments[0]} ended early:\n{Path(log.name).read_text()[-2000:]}")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()


def _await_ready(running: House) -> None:
    _await(running, lambda client: client.get("/readyz").status_code == 200)


def _await_worker(running: House) -> None:
    _await(running, lambda client: bool(client.get("/v1/workers").json()["items"]))


def _await(running: House, condition) -> None:
    deadline = time.monotonic() + 30
    with running.client() as client:
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.TransportError):
                if condition(client):
                    return
            time.sleep(0.02)
    logs = "\n".join(path.read_text()[-2000:] for path in running.folder.glob("*.log"))
    raise SystemExit(f"Timeball did not come up within 30 s:\n{logs}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
