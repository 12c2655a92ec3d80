"""I20, I2 on every store: after an absence of ten days (a month with `TIMEBALL_THOROUGH=1`), all fires of a job that
fires every second are caught up exactly, in bounded transactions."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.conformance.test_planning import FAR, claim, current, until
from tests.support.builders import job as new_job
from tests.support.builders import settlement
from tests.support.thorough import THOROUGH
from timeball.domain.instant import DAY, HOUR, MINUTE, SECOND, Micros
from timeball.domain.job.job import Job
from timeball.domain.planning.planning import MAX_INSTANTS, MAX_RUNS, JobPlan
from timeball.domain.run.ledger import Verdict
from timeball.domain.run.run import Run
from timeball.domain.schedule.schedule import CronSchedule
from timeball.operation.context import OperationContext
from timeball.ports.store.jobs import Submission
from timeball.ports.store.queries import RunFilter
from timeball.ports.store.store import Store
from timeball.server.loops.planner import Planner
from timeball.server.wakeups import LocalWakeups
from timeball.system import SystemClock

STEPS = {"* * * * *": MINUTE, "* * * * * *": SECOND}
TOLERANCE = 2 * SECOND
LONG = 30 if THOROUGH else 10


class Still:
    """A store as a server sees it for which no time passes, and which looks at every transaction of the planner."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._now = store.now()
        self.reached: dict[str, Micros] = {}
        """How far each job is planned."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def now(self) -> Micros:
        return self._now

    async def commit_plans(self, plans: Sequence[JobPlan], run_ids: Any) -> list[str]:
        assert sum(plan.runs for plan in plans) <= MAX_RUNS
        assert sum(plan.instants for plan in plans) <= MAX_INSTANTS
        done = await self._store.commit_plans(plans, run_ids)
        self.reached |= {plan.job.id: plan.next_fire_at or 0 for plan in plans if plan.job.id in done}
        return done


async def all_runs(store: Store, job: Job) -> list[Run]:
    where, cursor, found = RunFilter(tenant=job.tenant, job_id=job.id), None, []
    while True:
        page = await store.list_runs(where, cursor, 1_000)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return sorted(found, key=lambda each: each.fire_time)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("absence", [3 * HOUR, LONG * DAY], ids=["3 h", f"{LONG} d"])
async def test_an_absence_is_worked_off_exactly(store: Store, absence: Micros) -> None:
    still = Still(store)
    now = still.now()
    jobs: dict[tuple[str, str], Job] = {}
    for expression, step in STEPS.items():
        for rule in ("all", "last", "none"):
            first = (now - absence) // step * step + step
            schedule = CronSchedule(expression=expression)
            jobs[expression, rule] = new_job(
                now - absence, schedule=schedule, next_fire_at=first, catch_up=rule, overlap="allow"
            )
    await store.submit([Submission(job, ()) for job in jobs.values()])
    wakeups = LocalWakeups(lambda _: None)
    planner = Planner(OperationContext(still, SystemClock(), random.Random(1), wakeups), wakeups)  # type: ignore[arg-type]
    while len(still.reached) < len(jobs) or min(still.reached.values()) <= now:
        await planner.turn()
    for (expression, rule), job in jobs.items():
        assert job.next_fire_at is not None
        step = STEPS[expression]
        due = range(job.next_fire_at, now + 1, step)
        late = range(job.next_fire_at, now - TOLERANCE, step)
        last_hour = [at for at in late[-(HOUR // step) - 1 :] if at >= now - HOUR]
        caught_up = {"all": last_hour, "last": list(late[-1:]), "none": []}[rule]
        rows = await all_runs(store, job)
        ran = [row.fire_time for row in rows if row.verdict is Verdict.OPEN and row.fire_time <= now]
        assert ran == caught_up + list(due[len(late) :]), (expression, rule)
        spans = [row for row in rows if row.verdict is Verdict.MISSED]
        assert sum(span.fires for span in spans) == len(due) - len(ran)
        assert len(spans) == 1, "missed instants that follow each other share a row, over all transactions"
        assert (spans[0].fire_time, spans[0].fire_until) == (due[0], due[len(due) - len(ran) - 1])
        sums = await store.ledger_sums(job.id, 0, now + 1)
        assert sums.due == sum(sums.counts.values()) == len(due)
        assert (await current(store, job)).fired == sum(row.verdict is Verdict.OPEN for row in rows)
    await the_next_fire_fires(store, jobs["* * * * * *", "none"], now)


async def the_next_fire_fires(store: Store, job: Job, now: Micros) -> None:
    upcoming = now // SECOND * SECOND + SECOND
    await until(store, upcoming)
    while claims := await claim(store):
        await store.settle([settlement(got, at=max(got.eligible_at, upcoming)) for got in claims])
        if upcoming in [got.fire_time for got in claims if got.job_id == job.id]:
            return
    pytest.fail(f"nobody could claim the fire at {upcoming}; {await store.ledger_sums(job.id, now, FAR)}")
