"""Timeball as users run it: real processes, which are killed with signals, and all of which end with the test."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx2 as httpx
import psutil

KEY = "an-admin-key-for-tests-an-admin-key-for-tests"
WAIT_SECONDS = 60.0
"""Maximum number of seconds to wait for an event. It is generous, for machines that are busy with other work."""

T = TypeVar("T")


_ports = itertools.count(os.getpid() * 977)


def free_port() -> int:
    """Return a port that no socket has. It is below the ports that the system gives to connections, so that none of
    these takes it before a server listens on it; each process of a test run begins elsewhere."""
    for number in _ports:
        port = 10_000 + number % 20_000
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("unreachable: the count is endless")


def until(look: Callable[[], T | None], what: str, patience: float = WAIT_SECONDS) -> T:
    """Call `look` until it returns something, and return that. An exception counts as nothing."""
    began = time.monotonic()
    last: Exception | None = None
    while (waited := time.monotonic() - began) < patience:
        try:
            if found := look():
                return found
        except (httpx.TransportError, KeyError, IndexError, FileNotFoundError) as error:
            last = error
        time.sleep(min(0.05 + waited / 10, 0.2))  # each call costs CPU time, so the interval grows
    raise AssertionError(f"waited {patience:.0f} s for {what}" + (f"; last: {last!r}" if last else ""))


def private_folder(folder: Path) -> Path:
    """Return a folder for the data of Timeball, beside `folder`, so that jobs can create files directly in `folder`."""
    return folder.with_name(f"{folder.name}-timeball")


def data_dir(folder: Path) -> Path:
    return private_folder(folder) / "data"


class Process:
    """A process of `timeball …`, with its output in a file."""

    def __init__(
        self,
        folder: Path,
        arguments: list[str],
        environment: dict[str, str] | None = None,
        python: str = sys.executable,
        *,
        descriptors: tuple[int, int] | None = None,
        launcher: Sequence[str] = ("-m", "timeball"),
        **options: Any,
    ) -> None:
        """`descriptors` are the soft and the hard limit of file descriptors; `launcher` is the command that starts
        Python.
        """
        self.name = arguments[0]
        self.log = folder / f"{self.name}-{time.monotonic_ns()}.log"
        home = private_folder(folder) / "home"
        home.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as output:
            self.popen = subprocess.Popen(
                [*_limited(descriptors), python, *launcher, *arguments],
                env={**os.environ, "HOME": str(home), "TIMEBALL_ADMIN_KEY": KEY, **(environment or {})},
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                **options,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """Kill this process alone with SIGKILL."""
        self.popen.kill()
        self.popen.wait()

    def signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def stop(self, patience: float = WAIT_SECONDS) -> int:
        """Send SIGTERM, and return the exit code."""
        self.popen.terminate()
        return self.popen.wait(patience)

    def end(self) -> None:
        """Kill the process with all its descendants."""
        with contextlib.suppress(psutil.NoSuchProcess):
            family = [psutil.Process(self.pid), *psutil.Process(self.pid).children(recursive=True)]
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                self.popen.send_signal(signal.SIGCONT)
                self.popen.terminate()
                self.popen.wait(10)
            for member in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.kill()
        self.popen.wait()


def _limited(descriptors: tuple[int, int] | None) -> list[str]:
    if descriptors is None:
        return []
    soft, hard = descriptors
    return ["sh", "-c", f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"', "sh"]


class Api:
    """A plain HTTP client of the REST API of a server."""

    def __init__(self, url: str, key: str = KEY) -> None:
        self.url = url
        headers = {"Authorization": f"Bearer {key}"}
        # Certificates are not verified: loading the authorities, which no test here needs, takes longer than most
        # requests.
        self.http = httpx.Client(base_url=url, headers=headers, timeout=30, verify=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def call(self, method: str, path: str, expect: int | tuple[int, ...] = 200, **options: Any) -> Any:
        answer = self.http.request(method, path, **options)
        expected = (expect,) if isinstance(expect, int) else expect
        assert answer.status_code in expected, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if "json" in answer.headers.get("content-type", "") else answer.text

    def create(self, job: dict[str, Any], **headers: str) -> str:
        return str(self.call("POST", "/v1/jobs", expect=201, json=job, headers=headers)["jobId"])

    def run_of(self, job_id: str) -> dict[str, Any] | None:
        """Return the newest run of a job that is not just scheduled; None: there is none."""
        runs = self.call("GET", f"/v1/jobs/{job_id}/runs")["items"]
        return next((run for run in runs if run["status"] != "scheduled"), None)

    def ended_run_of(self, job_id: str) -> dict[str, Any] | None:
        ended = ("succeeded", "failed", "dead", "cancelled", "skipped")
        runs = self.call("GET", f"/v1/jobs/{job_id}/runs")["items"]
        return next((run for run in runs if run["status"] in ended), None)

    def is_ready(self) -> bool:
        return self.http.get("/readyz").status_code == 200

    def await_ready(self, process: Process) -> None:
        def look() -> bool:
            assert process.popen.poll() is None, f"timeball {process.name} ended:\n{process.output[-3000:]}"
            return self.is_ready()

        until(look, "the server to be ready")

    def await_workers(self, count: int) -> None:
        until(lambda: len(self.call("GET", "/v1/workers")["items"]) >= count, f"{count} workers")


@contextlib.contextmanager
def running_up(
    folder: Path, port: int | None = None, *more: str, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[Process, Api]]:
    """Start `timeball up` with a data folder beside `folder`."""
    port = port or free_port()
    arguments = ["up", "--port", str(port), "--data-dir", str(data_dir(folder)), *more]
    with Process(folder, arguments, dict(environment or {})) as process, Api(f"http://127.0.0.1:{port}") as api:
        api.await_ready(process)
        yield process, api


@contextlib.contextmanager
def running_server(
    folder: Path, dsn: str, port: int | None = None, *more: str, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[Process, Api]]:
    port = port or free_port()
    arguments = ["server", "--port", str(port), "--data-dir", str(data_dir(folder)), "--store", dsn, *more]
    with Process(folder, arguments, dict(environment or {})) as process, Api(f"http://127.0.0.1:{port}") as api:
        api.await_ready(process)
        yield process, api


def worker_key(api: Api) -> str:
    return str(api.call("POST", "/v1/api-keys", expect=(200, 201), json={"role": "worker", "name": "test"})["key"])


def start_worker(
    folder: Path,
    *apis: Api,
    name: str,
    slots: int | None = 4,
    tasks: str | None = None,
    flags: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    descriptors: tuple[int, int] | None = None,
) -> Process:
    """Start a worker; without `slots`, with the default ones."""
    servers = ",".join(api.url for api in apis)
    more = [*(["--tasks", tasks] if tasks else []), *flags]
    size = [] if slots is None else ["--slots", str(slots)]
    arguments = ["worker", "--server", servers, "--name", name, *size, *more]
    more_environment = {"TIMEBALL_TOKEN": worker_key(apis[0]), **(environment or {})}
    return Process(folder, arguments, more_environment, descriptors=descriptors)


def is_alive(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False
