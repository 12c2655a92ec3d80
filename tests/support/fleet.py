"""A real server with its loops and a real worker in one process, on a store in a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from timeball import system
from timeball.domain.job.job import JobSpec
from timeball.domain.run.run import Run
from timeball.operation.jobs.submit import Created, NewJob, Submit
from timeball.ports.executor import Executor
from timeball.ports.store.queries import RunFilter
from timeball.ports.store.runs import Settled, Settlement
from timeball.ports.worker_protocol import RegisterWorker
from timeball.server.server import Server
from timeball.stores.sqlite.store import SqliteStore
from timeball.worker.worker import Worker

TENANT = "default"


class AttentiveStore(SqliteStore):
    """Records the hosts of the settlements that it receives."""

    hosts: list[str | None]

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled | None]:
        self.hosts += [each.host for each in settlements]
        return await super().settle(settlements)


class Fleet:
    def __init__(self, store: AttentiveStore, server: Server) -> None:
        self.store = store
        self.store.hosts = []
        self.server = server

    async def submit(self, spec: JobSpec) -> str:
        (created,) = await Submit(self.server.context, lambda _: b"")([NewJob(TENANT, spec)])
        assert isinstance(created, Created)
        return created.job_id

    async def runs(self, job_id: str, until: Callable[[list[Run]], bool]) -> list[Run]:
        """Return the runs of a job, oldest first, as soon as they satisfy the condition."""
        while True:
            page = await self.store.list_runs(RunFilter(tenant=TENANT, job_id=job_id), None, 100)
            found = sorted(page.items, key=lambda run: run.fire_time)
            if until(found):
                return found
            await asyncio.sleep(0.01)

    async def ended(self, job_id: str) -> Run:
        """Return the only run of a job as soon as it has ended."""
        (listed,) = await self.runs(job_id, lambda runs: bool(runs) and runs[0].is_terminal)
        return (await self.store.runs([listed.id]))[listed.id]  # lists do not contain results


@asynccontextmanager
async def working(folder: Path, executor: Executor) -> AsyncIterator[Fleet]:
    store = AttentiveStore(folder / "timeball.db", wall=system.wall, monotonic=system.monotonic)
    clock, rng = system.SystemClock(), system.rng()
    server = Server(store, clock, rng)
    fleet = Fleet(store, server)
    worker = Worker(server.gateway, {executor.kind: executor}, clock, RegisterWorker(name="w", slots=10), rng=rng)
    await store.open()
    try:
        server.start()
        await worker.start()
        yield fleet
    finally:
        await worker.stop()
        await server.stop()
        await store.close()
