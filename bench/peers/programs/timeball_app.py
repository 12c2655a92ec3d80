"""Timeball: a server without workers accepts the backlog; then `timeball up`, server and worker in one process, drains
it.
"""

import atexit
import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import witness

import timeball

BATCH = 5_000
SLOTS = 2_000
TIMEBALL = [sys.executable, "-m", "timeball"]
WHERE = ["--data-dir", os.environ["PEER_FOLDER"], "--store", os.environ["PEER_STORE"]]

os.environ["TIMEBALL_ADMIN_KEY"] = "benchmark-key-benchmark-key-benchmark-key"
atexit.register(witness.finish)


@timeball.task("noop")
async def noop() -> None:
    witness.called()


def fill(jobs: int) -> None:
    with serving() as client:
        for begin in range(0, jobs, BATCH):
            client.batch([{"task": {"kind": "python", "function": "noop"}}] * min(BATCH, jobs - begin))


@contextlib.contextmanager
def serving() -> Iterator[timeball.Client]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([*TIMEBALL, "server", *WHERE, "--port", str(port)])
    try:
        while process.poll() is None:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/readyz"):
                break
            time.sleep(0.05)
        yield timeball.Client(url, os.environ["TIMEBALL_ADMIN_KEY"])
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fill", jobs]:
            fill(int(jobs))
        case ["work"]:
            os.environ["PYTHONPATH"] = str(Path(__file__).parent)
            workers = ["--slots", str(SLOTS), "--tasks", "timeball_app"]
            os.execv(sys.executable, [*TIMEBALL, "up", *WHERE, "--port", "0", *workers])
