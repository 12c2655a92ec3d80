"""Measures how many one-shot jobs a store alone processes per second: submitted, claimed and settled in batches, all
durable.

python -m bench.store [--batch 500] [--jobs 50000] [--backlog 0] [--store sqlite|postgres] [--ill-host]
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from bench.machine import loop_ms
from tests.support import builders
from tests.support.postgres import PostgresServer
from timeball import system
from timeball.domain.run.lifecycle import Failed, Failure
from timeball.domain.task.task import Http, host_of
from timeball.ports.store.runs import SlotRequest
from timeball.ports.store.store import Store
from timeball.stores.postgres.store import PostgresStore
from timeball.stores.sqlite.store import SqliteStore


async def life_cycle(store: Store, jobs: int, batch: int, backlog: int, *, failing_host: bool = False) -> None:
    await store.register(builders.worker("w_bench"), 3_600_000_000)
    if failing_host:
        await _fail_a_call(store)
    for _ in range(0, backlog, 1_000):
        await store.submit([builders.one_shot(store.now()) for _ in range(1_000)])
    spent = {"submit": 0.0, "claim": 0.0, "settle": 0.0}
    prepared = [[builders.one_shot(store.now()) for _ in range(batch)] for _ in range(jobs // batch)]
    for submissions in prepared:
        began = time.perf_counter()
        await store.submit(submissions)
        submitted = time.perf_counter()
        claimed = await store.claim([SlotRequest("w_bench", "bench", batch)], 0)
        handed = time.perf_counter()
        settlements = [builders.settlement(claim) for claim in claimed.claims]
        made = time.perf_counter()
        assert len(settlements) == batch
        await store.settle(settlements)
        spent["submit"] += submitted - began
        spent["claim"] += handed - submitted
        spent["settle"] += time.perf_counter() - made
    done = batch * len(prepared)
    shares = ", ".join(f"{name} {seconds / done * 1e6:.1f} µs" for name, seconds in spent.items())
    print(f"{done / sum(spent.values()):>10,.0f} jobs/s  ({shares}; loop {loop_ms():.0f} ms)")


async def _fail_a_call(store: Store) -> None:
    call = Http(url="http://ill.example/")
    await store.submit([builders.one_shot(store.now(), task=call)])
    (claim,) = (await store.claim([SlotRequest("w_bench", "bench", 1)], 0)).claims
    no_answer = Failed(Failure(kind="http", message="no answer"))
    await store.settle([builders.settlement(claim, no_answer, host=host_of(call))])


async def measure(name: str, jobs: int, batch: int, backlog: int, failing_host: bool) -> None:
    with tempfile.TemporaryDirectory(dir=".") as folder:
        if name == "sqlite":
            store: Store = SqliteStore(Path(folder) / "timeball.db", wall=system.wall, monotonic=system.monotonic)
            await run(store, jobs, batch, backlog, failing_host)
            return
    with PostgresServer.start(fsync=True) as server:
        store = PostgresStore(server.create_database(), monotonic=system.monotonic)
        await run(store, jobs, batch, backlog, failing_host)


async def run(store: Store, jobs: int, batch: int, backlog: int, failing_host: bool) -> None:
    await store.open()
    try:
        await life_cycle(store, jobs, batch, backlog, failing_host=failing_host)
    finally:
        await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--backlog", type=int, default=0, help="runs that wait already")
    parser.add_argument("--ill-host", action="store_true", help="one call to one host has failed before")
    parser.add_argument("--store", choices=["sqlite", "postgres"], action="append")
    given = parser.parse_args()
    for name in given.store or ["sqlite", "postgres"]:
        print(f"{name}, batches of {given.batch}, backlog {given.backlog:,}:", end=" ", flush=True)
        asyncio.run(measure(name, given.jobs, given.batch, given.backlog, given.failing_host))


if __name__ == "__main__":
    main()
