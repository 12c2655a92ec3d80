"""`logs --follow`: it shows each line once, as it is printed, also if connections are cut or servers are killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from tests.support.both_clients import BOTH, either
from tests.support.processes import (
    KEY,
    WAIT_SECONDS,
    Api,
    free_port,
    running_server,
    running_up,
    start_worker,
    until,
)
from tests.support.proxies import CuttingProxy


def counting(count: int, seconds: float = 0.02) -> dict[str, object]:
    """A job that prints its lines one by one."""
    command = f"for i in $(seq 1 {count}); do echo line $i; sleep {seconds}; done"
    return {"task": {"kind": "shell", "command": command}}


def lines(first: int, last: int) -> list[str]:
    return [f"line {number}" for number in range(first, last + 1)]


def started(api: Api, job: dict[str, object]) -> str:
    """The run of a new job, which has printed something."""
    job_id = api.create(job)
    run = until(lambda: api.run_of(job_id), "the job to start")
    until(lambda: api.call("GET", f"/v1/runs/{run['runId']}/logs"), "it to print something")
    return str(run["runId"])


class Follower:
    """`timeball runs logs -f`, with its output in files."""

    def __init__(self, folder: Path, url: str, run_id: str, *options: str) -> None:
        self._out = folder / f"follower{'-'.join(options)}.out"
        self._err = folder / f"follower{'-'.join(options)}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "timeball", "runs", "logs", "-f", run_id, *options],
                env={**os.environ, "HOME": str(folder), "TIMEBALL_URL": url, "TIMEBALL_TOKEN": KEY},
                stdout=out,
                stderr=err,
            )

    @property
    def lines(self) -> list[str]:
        return self._out.read_text().splitlines()

    @property
    def errors(self) -> str:
        return self._err.read_text()

    def end(self) -> list[str]:
        """What it printed until it ended by itself."""
        assert self.popen.wait(WAIT_SECONDS) == 0, self.errors
        assert not self.errors
        return self.lines


@contextlib.contextmanager
def following(folder: Path, url: str, run_id: str, *options: str) -> Iterator[Follower]:
    follower = Follower(folder, url, run_id, *options)
    try:
        yield follower
    finally:
        follower.popen.kill()
        follower.popen.wait()


@contextlib.contextmanager
def listening(url: str, run_id: str) -> Iterator[list[Future[list[str]]]]:
    """What either client hears, each in a thread of its own."""

    def listen(kind: str) -> list[str]:
        with either(kind, url, KEY) as client:
            return [line.text for line in client.follow_logs(run_id)]

    with ThreadPoolExecutor(len(BOTH)) as pool:
        yield [pool.submit(listen, kind) for kind in BOTH]


def test_lines_come_while_the_run_prints_them_and_ctrl_c_leaves_quietly(tmp_path: Path) -> None:
    with running_up(tmp_path) as (_, api):
        api.await_workers(1)
        run_id = started(api, counting(1_000, 0.1))
        with following(tmp_path, api.url, run_id) as follower:
            until(lambda: len(follower.lines) > 3, "the first lines")
            assert api.call("GET", f"/v1/runs/{run_id}")["status"] == "running"
            follower.popen.send_signal(signal.SIGINT)
            assert follower.popen.wait(WAIT_SECONDS) == 130
            assert follower.lines == lines(1, len(follower.lines))
            assert not follower.errors
        api.call("POST", f"/v1/runs/{run_id}/cancel")


def test_connections_that_are_cut_lose_and_repeat_nothing(tmp_path: Path) -> None:
    with running_up(tmp_path) as (_, api), CuttingProxy(api.http.base_url.port or 0, least=1_500, limit=3_000) as proxy:
        api.await_workers(1)
        run_id = started(api, counting(150))
        with (
            following(tmp_path, proxy.url, run_id) as text,
            following(tmp_path, proxy.url, run_id, "-o", "json") as objects,
            listening(proxy.url, run_id) as listeners,
        ):
            assert text.end() == lines(1, 150)
            found = [json.loads(line) for line in objects.end()]
            for listener in listeners:
                assert listener.result(WAIT_SECONDS) == lines(1, 150)
        assert [each["text"] for each in found] == lines(1, 150)
        assert {(each["attempt"], each["stream"]) for each in found} == {(1, "stdout")}
        assert proxy.cuts > 12


def test_a_server_that_is_killed_and_comes_back_is_waited_for(tmp_path: Path) -> None:
    store, port = f"sqlite:///{tmp_path}/store.db", free_port()
    with running_server(tmp_path, store, port) as (server, api), start_worker(tmp_path, api, name="apart") as worker:
        api.await_workers(1)
        run_id = started(api, counting(60, 0.05))
        with following(tmp_path, api.url, run_id) as follower, listening(api.url, run_id) as listeners:
            until(lambda: len(follower.lines) > 10, "the first lines")
            server.kill()
            with running_server(tmp_path, store, port):
                assert follower.end() == lines(1, 60)
                for listener in listeners:
                    assert listener.result(WAIT_SECONDS) == lines(1, 60)
                worker.kill()


def test_a_run_that_was_handed_back_and_begins_anew_is_told_from_its_beginning(tmp_path: Path) -> None:
    port = free_port()
    with running_up(tmp_path, port, "--drain", "1s") as (process, api):
        api.await_workers(1)
        run_id = started(api, counting(60, 0.1))
        with following(tmp_path, api.url, run_id) as follower, listening(api.url, run_id) as listeners:
            until(lambda: len(follower.lines) > 10, "the first lines")
            assert process.stop() == 0
            with running_up(tmp_path, port):
                for heard in (follower.end(), *(listener.result(WAIT_SECONDS) for listener in listeners)):
                    before = len(heard) - 60
                    assert before > 0
                    assert heard == lines(1, before) + lines(1, 60)
