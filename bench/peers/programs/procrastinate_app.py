"""Procrastinate: an asynchronous worker with as many connections as jobs at a time."""

import asyncio
import os
import sys

import procrastinate
import witness

CONCURRENCY = 30

app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=os.environ["PEER_STORE"], max_size=CONCURRENCY + 1)
)


@app.task(name="noop")
async def noop() -> None:
    witness.called()


async def fill(jobs: int) -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for begin in range(0, jobs, 1_000):
            await noop.batch_defer_async(*[{}] * min(1_000, jobs - begin))


async def work() -> None:
    async with app.open_async():
        await app.run_worker_async(concurrency=CONCURRENCY, delete_jobs="successful")
    witness.finish()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fill", jobs]:
            asyncio.run(fill(int(jobs)))
        case ["work"]:
            asyncio.run(work())
