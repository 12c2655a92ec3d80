"""Operations and planning on a store whose clock stands still until a test moves it."""

import random
from typing import Any

from msgspec import structs

from timeball.domain.errors import TimeballError
from timeball.domain.instant import DAY, MINUTE, SECOND, Micros
from timeball.domain.job.job import Job, JobSpec
from timeball.domain.run.lifecycle import Succeeded
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status
from timeball.domain.task.task import Shell
from timeball.operation.context import OperationContext
from timeball.operation.jobs.submit import Created, NewJob, Submit
from timeball.operation.jobs.update import update
from timeball.operation.runs.run_now import run_now
from timeball.ports.store.queries import RunFilter
from timeball.ports.store.runs import Settlement, SlotRequest
from timeball.ports.store.workers import WorkerRecord
from timeball.server.loops.planner import Planner
from timeball.server.wakeups import LocalWakeups
from timeball.stores.sqlite.store import SqliteStore

START = 1_800_000_000 * SECOND


class World:
    """Operations on a store whose clock stands still until it is moved."""

    def __init__(self) -> None:
        self.time = START
        self._workers = 0
        self.store = SqliteStore(":memory:", wall=self.monotonic, monotonic=self.monotonic, inline=True)
        self.wakeups = LocalWakeups(lambda _: None)
        self.context = OperationContext(self.store, self, random.Random(1), self.wakeups)
        self.planner = Planner(self.context, self.wakeups)

    def monotonic(self) -> Micros:
        return self.time

    async def sleep(self, length: Micros) -> None:
        self.time += length

    async def submit(self, schedule: Any, **spec: Any) -> Created | TimeballError:
        job = NewJob("default", JobSpec(task=Shell(command="true"), schedule=schedule, **spec))
        [answer] = await Submit(self.context, lambda _: b"")([job])
        return answer

    async def create(self, schedule: Any, **spec: Any) -> str:
        created = await self.submit(schedule, **spec)
        assert isinstance(created, Created)
        return created.job_id

    async def plan(self) -> None:
        while await self.planner.turn() == 0:
            pass

    async def work_off(self) -> None:
        """Plan, claim and settle everything that is due."""
        await self.plan()
        now = self.store.now()
        session = await self.worker()
        while claims := (await self.store.claim([SlotRequest(session, "w", 100)], 0)).claims:
            await self.store.settle(
                [Settlement.of(claim, claim.session, Succeeded(), started_at=now, finished_at=now) for claim in claims]
            )

    async def worker(self) -> str:
        """Register a new worker and return its session."""
        now = self.store.now()
        self._workers += 1
        worker = WorkerRecord(
            session=f"w_{self._workers}", key=None, name="w", slots=9, labels=[], tasks=[], version="", started_at=now,
            seen_at=now, lease_until=now,
        )  # fmt: skip
        await self.store.register(worker, MINUTE)
        return worker.session

    async def trigger(self, job_id: str) -> None:
        await run_now(self.context, "default", job_id)

    async def live(self, length: Micros, step: Micros = SECOND) -> None:
        """Let time pass in steps, and execute what is due at each step."""
        until = self.time + length
        while self.time < until:
            self.time = min(self.time + step, until)
            await self.work_off()

    async def edit(self, job_id: str, **fields: Any) -> Job:
        found = await update(self.context, "default", job_id, lambda spec: structs.replace(spec, **fields))
        return found.job

    async def job(self, job_id: str) -> Job:
        return (await self.store.jobs([job_id]))[job_id].job

    async def status(self, job_id: str) -> str:
        return (await self.store.jobs([job_id]))[job_id].status

    async def runs(self, job_id: str) -> list[Run]:
        """Return all runs and ledger rows, in the order of their fires."""
        found, cursor = [], None
        while True:
            page = await self.store.list_runs(RunFilter(tenant="default", job_id=job_id), cursor, 10_000)
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                return sorted(found, key=lambda run: (run.fire_time, run.id))

    async def fired(self, job_id: str) -> list[Micros]:
        return [run.fire_time for run in await self.runs(job_id) if run.status is Status.SUCCEEDED]

    async def ledger(self, job_id: str) -> dict[str, int]:
        sums = await self.store.ledger_sums(job_id, 0, self.time + DAY)
        assert sums.due == sum(sums.counts.values())
        return {str(verdict): count for verdict, count in sums.counts.items()}
