"""Measures what many workers without work cost two servers and PostgreSQL.

    python -m bench.idle_workers --workers 1000 --servers 2 --seconds 20

The workers are real ones, all in this process, with executors that do nothing. First they are idle. Then a few jobs per
second show what each job costs while all workers wait. At the end one server stops, which shows what it costs when all
its workers move to the others.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import uvloop
from msgspec import Raw

from bench.machine import loop_ms
from bench.processes import cpu_seconds
from tests.support.postgres import PostgresServer
from tests.support.processes import KEY, Api, Process, running_server, worker_key
from timeball import system
from timeball.domain.run.lifecycle import Outcome, Succeeded
from timeball.ports.executor import ExecutorAttempt
from timeball.ports.worker_protocol import RegisterWorker
from timeball.worker.transport.http_worker_protocol import HttpWorkerProtocol
from timeball.worker.worker import Worker

JOBS_PER_SECOND = 20
JOB = {"task": {"kind": "http", "url": "http://nowhere/"}}


class Idle:
    kind = "http"

    def __init__(self) -> None:
        self.done = 0

    async def execute(self, attempt: ExecutorAttempt) -> Outcome:
        self.done += 1
        return Succeeded(Raw(b"null"))


class Bill:
    """CPU time of the servers and of PostgreSQL, as shares of one core."""

    def __init__(self, servers: list[Process], postgres: PostgresServer) -> None:
        self._servers, self._postgres = servers, postgres
        self._before, self._at = self._spent(), time.monotonic()

    def _spent(self) -> list[float]:
        spent = [cpu_seconds(server.pid) for server in self._servers if server.popen.poll() is None]
        return [*spent, cpu_seconds(self._postgres.pid, family=True)]

    def tell(self, what: str, jobs: int = 0) -> None:
        took = time.monotonic() - self._at
        spent = [after - before for before, after in zip(self._before, self._spent(), strict=True)]
        shares = ", ".join(f"{each / took:6.1%}" for each in spent[:-1])
        each = f"; {sum(spent[:-1]) / jobs * 1000:.2f} ms of servers a job" if jobs else ""
        print(
            f"{what:32} servers {shares}; PostgreSQL {spent[-1] / took:6.1%} of a core, {took:.1f} s{each}"
            f" (loop {loop_ms():.0f} ms)",
            flush=True,
        )


async def connections(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    counted: int = await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'timeball' AND datname = current_database()"
    )
    await connection.close()
    return counted


async def submit(apis: list[Api], seconds: float) -> int:
    count = int(seconds * JOBS_PER_SECOND)
    headers = {"Authorization": f"Bearer {KEY}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for number in range(count):
            async with session.post(f"{apis[number % len(apis)].url}/v1/jobs", json=JOB) as answer:
                assert answer.status == 201, await answer.text()
            await asyncio.sleep(1 / JOBS_PER_SECOND)
    return count


async def welcomed(worker: Worker) -> None:
    for _ in range(600):
        if worker.session is not None:
            return
        await asyncio.sleep(0.1)


async def crowd(apis: list[Api], servers: list[Process], postgres: PostgresServer, dsn: str, options: Any) -> None:
    key, idle, clock, rng = worker_key(apis[0]), Idle(), system.SystemClock(), system.rng()
    urls = [api.url for api in apis]
    async with contextlib.AsyncExitStack() as stack:
        workers = []
        arriving = Bill(servers, postgres)
        for number in range(options.workers):
            dispatch = await stack.enter_async_context(HttpWorkerProtocol(urls, key, home=number))
            hello = RegisterWorker(name=f"w{number}", slots=4)
            workers.append(Worker(dispatch, {"http": idle}, clock, hello, rng=rng))
            await workers[-1].start()
            await asyncio.sleep(0.005)
        await asyncio.gather(*(welcomed(worker) for worker in workers))
        arriving.tell(f"{options.workers} workers say hello")
        await asyncio.sleep(12)
        resting = Bill(servers, postgres)
        await asyncio.sleep(options.seconds)
        resting.tell("at rest")
        print(f"{'connections to PostgreSQL':32} {await connections(dsn)}")
        busy = Bill(servers, postgres)
        jobs = await submit(apis, options.seconds / 2)
        busy.tell(f"{JOBS_PER_SECOND} jobs a second", jobs)
        for _ in range(200):
            if idle.done >= jobs:
                break
            await asyncio.sleep(0.05)
        print(f"{'jobs':32} {jobs} submitted, {idle.done} executed")
        if len(servers) > 1:
            servers[-1].kill()
            moving = Bill(servers[:-1], postgres)
            await asyncio.sleep(15)
            moving.tell("all go to the others")
            alive = apis[0].call("GET", "/v1/workers?limit=1000")["items"]
            print(f"{'workers that are alive':32} {len(alive)}; {await connections(dsn)} connections")
        await asyncio.gather(*(worker.stop() for worker in workers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1_000)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    logging.getLogger("timeball.worker").setLevel(logging.ERROR)  # each worker would log that a server died
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        postgres = stack.enter_context(PostgresServer.start(fsync=True))
        dsn = postgres.create_database()
        pairs = [stack.enter_context(running_server(folder, dsn)) for _ in range(options.servers)]
        servers, apis = [process for process, _ in pairs], [api for _, api in pairs]
        uvloop.run(crowd(apis, servers, postgres, dsn, options))


if __name__ == "__main__":
    main()
