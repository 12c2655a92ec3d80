"""The shipped configurations of nginx and haproxy, in front of two servers: a rolling restart under load has no error
for a client that repeats requests, and events and followed logs pass."""

import contextlib
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL, Popen

import httpx2 as httpx
import pytest

import timeball
from tests.parts.catalog import require
from tests.support.processes import KEY, Api, Process, data_dir, free_port, start_worker, until

DEPLOY = Path(__file__).parents[2] / "deploy"
NOOP = {"task": {"kind": "shell", "command": "true"}}
LINES = 40
RETRYABLE = {502, 503, 504}

pytestmark = [pytest.mark.parts, pytest.mark.timeout(300)]


@contextlib.contextmanager
def proxy(name: str, folder: Path, ports: tuple[int, int]) -> Iterator[str]:
    """Start a proxy with its shipped configuration, in which only the addresses and ports are others."""
    port, program = free_port(), require(name)
    shipped = DEPLOY / name / ("timeball.conf" if name == "nginx" else "haproxy.cfg")
    text = shipped.read_text()
    for host, there in zip(("server-a:1300", "server-b:1300"), ports, strict=True):
        assert text.count(host) == 1
        text = text.replace(host, f"127.0.0.1:{there}")
    listen = "listen 8080" if name == "nginx" else "bind :8080"
    assert text.count(listen) == 1
    text = text.replace(listen, listen.replace(":8080", f"127.0.0.1:{port}").replace(" 8080", f" 127.0.0.1:{port}"))
    (folder / shipped.name).write_text(text)
    if name == "nginx":
        main = folder / "nginx.conf"
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
        main.write_text(
            f"daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; events {{}}"
            f" http {{ access_log off; {temporary} include {folder / shipped.name}; }}"
        )
        command = [program, "-c", main, "-p", folder, "-e", folder / "error.log"]
    else:
        command = [program, "-db", "-f", folder / shipped.name]
    process = Popen(list(map(str, command)), stdout=DEVNULL, stderr=DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        until(lambda: httpx.get(f"{url}/livez").status_code == 200, "the proxy to pass requests")
        yield url
    finally:
        process.terminate()
        process.wait(30)


class Load:
    """Submits jobs through the proxy, and repeats a request that failed with the same key."""

    def __init__(self, url: str) -> None:
        self.acknowledged: list[str] = []
        self.errors: Counter[str] = Counter()
        self.repeated = 0
        self._url = url
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._submit, args=(number,)) for number in range(4)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _submit(self, thread: int) -> None:
        with httpx.Client(base_url=self._url, headers={"Authorization": f"Bearer {KEY}"}, timeout=30) as client:
            number = 0
            while not self._stop.is_set():
                number += 1
                self._until_answered(client, f"key-{thread}-{number}")

    def _until_answered(self, client: httpx.Client, key: str) -> None:
        for _ in range(200):
            try:
                answer = client.post("/v1/jobs", json=NOOP, headers={"Idempotency-Key": key})
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code in (200, 201):
                self.acknowledged.append(answer.json()["jobId"])
                return
            if answer is not None and answer.status_code not in RETRYABLE:
                self.errors[f"{answer.status_code} {answer.text}"] += 1
                return
            self.repeated += 1
            time.sleep(0.05)
        self.errors["no answer"] += 1


class Listener:
    """Follows the events and the output of a run through the proxy, over all restarts."""

    def __init__(self, url: str, run_id: str) -> None:
        self.lines: list[str] = []
        self.events = 0
        self._url, self._run_id = url, run_id
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._follow, self._listen)]
        for thread in self._threads:
            thread.start()

    def _follow(self) -> None:
        with timeball.Client(self._url, token=KEY) as client:
            for line in client.follow_logs(self._run_id):
                self.lines.append(line.text)

    def _listen(self) -> None:
        with contextlib.suppress(timeball.Unavailable), timeball.Client(self._url, token=KEY) as client:
            for _ in client.events():  # ends with the proxy
                self.events += 1

    def is_complete(self) -> bool:
        self._threads[0].join(1)
        return not self._threads[0].is_alive()


@contextlib.contextmanager
def servers(folder: Path, dsn: str, ports: tuple[int, int]) -> Iterator[list[Process]]:
    found = [_start(folder, dsn, port) for port in ports]
    try:
        yield found
    finally:
        for process in found:
            process.end()


def _start(folder: Path, dsn: str, port: int) -> Process:
    own = str(data_dir(folder) / str(port))
    process = Process(folder, ["server", "--port", str(port), "--data-dir", own, "--store", dsn])
    with Api(f"http://127.0.0.1:{port}") as api:
        api.await_ready(process)
    return process


@pytest.mark.parametrize("name", ["nginx", "haproxy"])
def test_a_rolling_restart_has_no_error_for_a_client_that_repeats(name: str, tmp_path: Path, postgres_dsn: str) -> None:
    require(name)
    ports = (free_port(), free_port())
    with servers(tmp_path, postgres_dsn, ports) as processes, contextlib.ExitStack() as stack:
        direct = [stack.enter_context(Api(f"http://127.0.0.1:{port}")) for port in ports]
        stack.enter_context(start_worker(tmp_path, *direct, name="w", slots=16))
        url = stack.enter_context(proxy(name, tmp_path, ports))
        api = stack.enter_context(Api(url))
        assert api.http.get("/metrics").status_code == 404
        slow = f"for i in $(seq {LINES}); do echo line-$i; sleep 0.5; done"
        job = api.create({"task": {"kind": "shell", "command": slow}})
        run = until(lambda: (each := api.run_of(job)) and each["status"] == "running" and each, "the run to start")
        listener = Listener(url, run["runId"])
        with Load(url) as load:
            until(lambda: len(load.acknowledged) > 50 and listener.events > 10 and listener.lines, "load and events")
            for index, port in enumerate(ports):
                before = len(load.acknowledged), listener.events
                processes[index].signal(signal.SIGTERM)
                assert processes[index].popen.wait(60) == 0
                until(lambda before=before: len(load.acknowledged) > before[0] + 20, "the other server to accept")
                processes[index] = _start(tmp_path, postgres_dsn, port)
                until(lambda before=before: listener.events > before[1] + 20, "events after the restart")
        assert load.errors == {}
        assert len(set(load.acknowledged)) == len(load.acknowledged), "no request created two jobs"
        until(listener.is_complete, "the run to end")
        assert listener.lines == [f"line-{n + 1}" for n in range(LINES)]
        for job_id in load.acknowledged[-20:] + load.acknowledged[:20]:
            until(lambda job_id=job_id: api.ended_run_of(job_id), "its run to end")
