"""Values for tests, with sensible defaults for everything that the test does not name."""

import itertools
from collections.abc import Sequence
from typing import Any

from msgspec import structs

from timeball.domain import ids
from timeball.domain.instant import SECOND, Micros
from timeball.domain.job.job import HORIZON, Job, JobSpec, JobState
from timeball.domain.planning.planning import plan as make_plan
from timeball.domain.run.ledger import Origin
from timeball.domain.run.lifecycle import Outcome, Succeeded
from timeball.domain.run.run import NewRun, new_run
from timeball.domain.schedule import schedule
from timeball.domain.schedule.schedule import Immediate, Interval
from timeball.domain.task.task import Shell
from timeball.ports.store.jobs import Submission
from timeball.ports.store.runs import Claim, Settlement
from timeball.ports.store.store import Store
from timeball.ports.store.workers import WorkerRecord
from timeball.ports.worker_protocol import LOCAL_KEY

TENANT = "default"
LEASE = 60 * SECOND

_numbers = itertools.count(1)


class _Counter:
    """Random bits that are unique and grow, for ids."""

    def getrandbits(self, k: int, /) -> int:
        return next(_numbers)


bits = _Counter()


def spec(**fields: Any) -> JobSpec:
    return JobSpec(**{"task": Shell(command="true"), **fields})


def job(now: Micros, *, tenant: str = TENANT, next_fire_at: Micros | None = None, **fields: Any) -> Job:
    """Return an active job before its first fire. `schedule` and other fields of the spec are keyword arguments."""
    wanted = spec(**fields)
    job_id = ids.job(now, bits)
    first = next_fire_at if next_fire_at is not None else schedule.first(wanted.schedule, now, job_id)
    return Job(
        id=job_id,
        tenant=tenant,
        spec=wanted,
        version=1,
        state=JobState.ACTIVE,
        anchor=now,
        next_fire_at=first,
        plan_at=None if first is None else first - HORIZON,
        created_at=now,
        updated_at=now,
    )


def interval(seconds: int = 10) -> Interval:
    return Interval(expression=f"{seconds}s")


def run(of: Job, fire_time: Micros, *, origin: Origin = Origin.MANUAL, **fields: Any) -> NewRun:
    made = new_run(of, ids.run(fire_time, bits), origin, fire_time, fire_time)
    return structs.replace(made, **fields)


def one_shot(now: Micros, *, at: Micros | None = None, **fields: Any) -> Submission:
    """Return a submission of a job whose only fire is a run already."""
    fires_at = now if at is None else at
    made = job(now, next_fire_at=fires_at, **{"schedule": Immediate(), **fields})
    first = run(made, fires_at, origin=Origin.SCHEDULE)
    return Submission(made.with_(next_fire_at=None, plan_at=None), (first,))


def recurring(now: Micros, *, seconds: int = 10, next_fire_at: Micros | None = None, **fields: Any) -> Submission:
    """Return a submission of a job on an interval without a run; the planner creates its runs."""
    made = job(now, schedule=interval(seconds), next_fire_at=next_fire_at, **fields)
    return Submission(made, ())


def worker(session: str = "w_1", **fields: Any) -> WorkerRecord:
    values = {
        "session": session,
        "key": LOCAL_KEY,
        "name": f"worker of {session}",
        "slots": 10,
        "labels": [],
        "tasks": [],
        "version": "",
        "started_at": 0,
        "seen_at": 0,
        "lease_until": 0,
    }
    return WorkerRecord(**{**values, **fields})


def settlement(claim: Claim, outcome: Outcome | None = None, *, at: Micros | None = None, **fields: Any) -> Settlement:
    when = claim.fire_time if at is None else at
    made = Settlement.of(claim, claim.session, Succeeded() if outcome is None else outcome, when, when, spread=0.5)
    return structs.replace(made, **fields) if fields else made


async def plan_due(store: Store, *, limit: int = 1_000) -> list[str]:
    """Plan the jobs that are due, as one turn of the planner does. Return their ids."""
    now = store.now()
    plans = [make_plan(each, now) for each in await store.due_jobs(limit)]
    run_ids: Sequence[Sequence[str]] = [[ids.run(now, bits) for _ in each.steps] for each in plans]
    return await store.commit_plans(plans, run_ids)
