"""I1, I2, I27: every server is restarted in turn while a client submits. What was acknowledged runs, and the client
sees only connections that end, after which it tries again. I8: a server that was stopped for longer than a lease
changes nothing stale when it continues."""

import asyncio
import signal
import time
from collections import Counter
from pathlib import Path

import aiohttp
import pytest

from tests.support.postgres import PostgresCluster
from tests.support.processes import KEY, Api, Process, data_dir, running_server, start_worker, until
from tests.support.thorough import THOROUGH

RATE = 500 if THOROUGH else 100
"""Jobs in a second."""
ASLEEP = 45.0 if THOROUGH else 17.0
"""Seconds that a server is stopped for: three leases, or one."""
NOOP = {"task": {"kind": "python", "function": "timeball.noop"}}

pytestmark = pytest.mark.timeout(300)


class Submitting:
    """A client that knows two servers, and asks the next one again under the same key when a connection ended."""

    def __init__(self, *urls: str) -> None:
        self._urls = urls
        self.acknowledged: list[str] = []
        self.resets = 0
        self.errors: Counter[str] = Counter()

    async def go_on(self) -> None:
        began, sent = time.monotonic(), 0
        headers = {"Authorization": f"Bearer {KEY}"}
        connector = aiohttp.TCPConnector(limit=50)
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session, asyncio.TaskGroup() as tasks:
            while True:
                while sent < (time.monotonic() - began) * RATE:
                    sent += 1
                    tasks.create_task(self._submit(session, sent))
                await asyncio.sleep(0.01)

    async def _submit(self, session: aiohttp.ClientSession, number: int) -> None:
        for tried in range(100):
            url = self._urls[(number + tried) % len(self._urls)]
            try:
                async with session.post(
                    f"{url}/v1/jobs", json=NOOP, headers={"Idempotency-Key": f"key-{number}"}
                ) as answer:
                    body = await answer.json()
                    if answer.status in (200, 201):
                        self.acknowledged.append(body["jobId"])
                    else:
                        self.errors[f"{answer.status} {body.get('detail')}"] += 1
                    return
            except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
                self.resets += 1
                await asyncio.sleep(0.05)
        self.errors["no server takes the connection"] += 1


def succeeded(postgres: PostgresCluster, dsn: str) -> dict[str, int]:
    rows = postgres.fetch_value(
        "SELECT string_agg(job_id || ' ' || runs, ',') FROM (SELECT job_id, count(*) AS runs FROM history "
        "WHERE status = 'succeeded' GROUP BY 1) ended",
        dsn,
    )
    return {job_id: int(runs) for job_id, runs in (row.split() for row in (rows or "").split(",") if row)}


def restart(process: Process, folder: Path, dsn: str, api: Api) -> Process:
    """Stop a server as an operator would, and start it where it was. It says that it goes before it stops listening."""
    process.signal(signal.SIGTERM)
    until(lambda: api.http.get("/readyz").json()["checks"]["stays"] is False, "the server to say that it goes", 5)
    assert process.popen.wait(20) == 0, process.output
    assert "Traceback" not in process.output
    port = str(api.http.base_url.port)
    began = Process(folder, ["server", "--port", port, "--data-dir", str(data_dir(folder)), "--store", dsn])
    api.await_ready(began)
    return began


async def test_a_rolling_restart_loses_nothing(tmp_path: Path, postgres: PostgresCluster, postgres_dsn: str) -> None:
    with (
        running_server(tmp_path, postgres_dsn) as (one, first),
        running_server(tmp_path, postgres_dsn) as (two, second),
        start_worker(tmp_path, first, second, name="alice", slots=50) as worker,
    ):
        second.await_workers(1)
        client = Submitting(first.url, second.url)
        load = asyncio.create_task(client.go_on())
        await asyncio.sleep(1)
        again = await asyncio.to_thread(restart, one, tmp_path, postgres_dsn, first)
        try:
            other = await asyncio.to_thread(restart, two, tmp_path, postgres_dsn, second)
            try:
                await asyncio.sleep(1)
                load.cancel()
                await asyncio.wait([load])
                acknowledged = set(client.acknowledged)
                assert not client.errors
                assert len(acknowledged) > RATE
                await asyncio.to_thread(
                    until, lambda: acknowledged <= succeeded(postgres, postgres_dsn).keys(), "all of them to run"
                )
                assert set(succeeded(postgres, postgres_dsn).values()) == {1}
                assert "session lost" not in worker.output
                print(
                    f"{len(acknowledged)} jobs acknowledged and run; {client.resets} connections ended and were healed"
                )
            finally:
                await asyncio.to_thread(other.end)
        finally:
            await asyncio.to_thread(again.end)


def test_workers_spread_themselves_and_outlive_their_server(tmp_path: Path, postgres_dsn: str) -> None:
    """Long polls hang at the server that a worker chose: the one that dies, or the other."""
    names = [f"w{number}" for number in range(4)]
    with running_server(tmp_path, postgres_dsn) as (one, first), running_server(tmp_path, postgres_dsn) as (_, second):
        workers = [start_worker(tmp_path, first, second, name=name, slots=1) for name in names]
        try:
            second.await_workers(len(names))
            one.kill()
            jobs = [second.create({"task": {"kind": "shell", "command": "sleep 1"}}) for _ in range(len(names))]
            ended = until(
                lambda: all(found := [second.ended_run_of(job) for job in jobs]) and found, "all workers to be found"
            )
            assert {run["status"] for run in ended} == {"succeeded"}
            assert {run["executorId"] for run in ended} == set(names), "each of them goes on with the other server"
        finally:
            for worker in workers:
                worker.end()


@pytest.mark.parts  # the simulator does the same to each of its fleets
def test_a_server_stopped_past_the_lease_changes_nothing_stale(tmp_path: Path, postgres_dsn: str) -> None:
    """It is stopped while it plans, hands out and settles; the other one does its work meanwhile. On waking it may have
    anything left in its hands: each fire is still one run, and no attempt is made twice."""
    witness = tmp_path / "witness"
    command = f'echo "$TIMEBALL_RUN_ID $TIMEBALL_ATTEMPT" >> {witness}'
    ticking = {
        "task": {"kind": "shell", "command": command},
        "schedule": {"type": "interval", "expression": "1s"},
        "overlap": "allow",
        "catchUp": "all",
    }
    with (
        running_server(tmp_path, postgres_dsn) as (sleeper, first),
        running_server(tmp_path, postgres_dsn) as (_, second),
        start_worker(tmp_path, first, second, name="a", slots=8),
        start_worker(tmp_path, first, second, name="b", slots=8),
    ):
        second.await_workers(2)
        jobs = [first.create(ticking) for _ in range(5)]
        until(lambda: len(witness.read_text().splitlines()) >= 10, "some fires")
        sleeper.signal(signal.SIGSTOP)
        time.sleep(ASLEEP)
        before = len(witness.read_text().splitlines())
        assert before > ASLEEP / 2, "the other server and its workers go on"
        sleeper.signal(signal.SIGCONT)
        first.await_ready(sleeper)
        until(lambda: len(witness.read_text().splitlines()) >= before + 10, "fires after that")
        for job in jobs:
            first.call("POST", f"/v1/jobs/{job}/pause", json={})
        until(
            lambda: all("open" not in second.call("GET", f"/v1/jobs/{job}/ledger")["counts"] for job in jobs),
            "all runs to end",
        )
        attempts = Counter(tuple(line.split()) for line in witness.read_text().splitlines())
        assert set(attempts.values()) == {1}, "no attempt was made twice"
        for job in jobs:
            ledger = second.call("GET", f"/v1/jobs/{job}/ledger")
            assert ledger["due"] == sum(ledger["counts"].values())
            assert set(ledger["counts"]) <= {"on_time", "late", "caught_up"}, ledger["counts"]
        due = sum(second.call("GET", f"/v1/jobs/{job}/ledger")["due"] for job in jobs)
        assert len({run for run, _ in attempts}) == due, "each fire is one run"
