"""pgqueuer: the asyncpg driver, on uvloop, with large batches."""

import asyncio
import os
import signal
import sys

import asyncpg
import uvloop
import witness
from pgqueuer import AsyncpgDriver, PgQueuer
from pgqueuer.models import Job

BATCH = 500


async def fill(jobs: int) -> None:
    connection = await asyncpg.connect(os.environ["PEER_STORE"])
    queries = PgQueuer(AsyncpgDriver(connection)).qm.queries
    await queries.install()
    await queries.optimize_autovacuum()
    for begin in range(0, jobs, 10_000):
        some = min(10_000, jobs - begin)
        await queries.enqueue(["noop"] * some, [None] * some, [0] * some)
    await connection.close()


async def work() -> None:
    queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(os.environ["PEER_STORE"])))

    @queuer.entrypoint("noop")
    async def noop(job: Job) -> None:
        witness.called()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queuer.shutdown.set)
    await queuer.run(batch_size=BATCH)
    witness.finish()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fill", jobs]:
            uvloop.run(fill(int(jobs)))
        case ["work"]:
            uvloop.run(work())
