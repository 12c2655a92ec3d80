"""APScheduler: one scheduler on asyncio. Its job store is PostgreSQL, or memory, which is not durable."""

import asyncio
import datetime as dt
import os
import signal
import sys

import witness
from apscheduler.executors.asyncio import AsyncIOExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler

DUE = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


async def noop() -> None:
    witness.called()


def scheduler(store: MemoryJobStore | SQLAlchemyJobStore) -> AsyncIOScheduler:
    return AsyncIOScheduler(
        jobstores={"default": store},
        executors={"default": AsyncIOExecutor()},
        job_defaults={"misfire_grace_time": None},
    )


def postgresql(**engine: object) -> SQLAlchemyJobStore:
    url = os.environ["PEER_STORE"].replace("postgresql://", "postgresql+psycopg://")
    return SQLAlchemyJobStore(url=url, engine_options=engine)


def add(paused: AsyncIOScheduler, jobs: int) -> None:
    for _ in range(jobs):
        paused.add_job(noop, "date", run_date=DUE)


async def fill(jobs: int) -> None:
    # One commit for each job: without waiting for the disk this is faster, and the filling is not measured.
    filled = scheduler(postgresql(connect_args={"options": "-c synchronous_commit=off"}))
    filled.start(paused=True)
    add(filled, jobs)
    filled.shutdown()


async def work(running: AsyncIOScheduler) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    witness.begin()  # it fetches all due jobs from its store before the event loop executes any of them
    if running.state:
        running.resume()
    else:
        running.start()
    await stopped.wait()
    witness.finish()


async def work_in_memory(jobs: int) -> None:
    running = scheduler(MemoryJobStore())
    running.start(paused=True)
    add(running, jobs)
    await work(running)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fill", jobs]:
            asyncio.run(fill(int(jobs)))
        case ["work"]:
            asyncio.run(work(scheduler(postgresql())))
        case ["work", "in-memory", jobs]:
            asyncio.run(work_in_memory(int(jobs)))
