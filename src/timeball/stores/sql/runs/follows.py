"""Jobs that follow other jobs. The end of a run is stored as an upstream event for each job that follows, in the
transaction that ends the run. Later the event becomes a fire of the following job, under the lock on that job.

So a transaction that ends a run locks none of the following jobs, and cannot deadlock with them. Every server finds the
events without a fire by an index. A transaction that plans or amends a following job applies its events first. The fire
is at the end of the run or a little later: no two fires of a job are at the same instant, and none is before the last
change of the job, so that an event which an edit did not see belongs to the new version.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import starmap
from typing import Final

from msgspec import Struct, structs

from timeball.batch_isolation import in_halves
from timeball.domain.errors import InvalidSchedule
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobState
from timeball.domain.planning import planning
from timeball.domain.planning.planning import JobPlan, PlannedFire, Span
from timeball.domain.run import follow
from timeball.domain.run.ledger import FORGONE, Origin, Verdict
from timeball.domain.run.status import RAN, Status
from timeball.ports.store.jobs import Amendment
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.rows.jobs import read_jobs
from timeball.stores.sql.rows.unreadable import unread
from timeball.stores.sql.schema.jobs import FOLLOWS, FollowRow, JobRow, UpstreamEventRow
from timeball.stores.sql.schema.runs import NewHistoryRow
from timeball.stores.sql.schema.table import as_tuple
from timeball.stores.sql.statements import many, query

INSERT_UPSTREAM_EVENTS = query("insert_upstream_events")
FOLLOWERS_WITH_NEW_EVENTS = query("followers_with_new_events")
NEW_UPSTREAM_EVENTS = many(query("new_upstream_events"))
FOLLOWS_BY_ID = query("follows_by_id")
SET_FIRE_TIMES = query("set_fire_times")
DROP_UPSTREAM_EVENTS = query("drop_upstream_events")
NOTE_LAST = query("note_last")
MOVE_FOLLOWERS = query("move_followers")
WAITING_UPSTREAM_EVENTS = many(query("waiting_upstream_events"))
SUM_OF_UPSTREAM_EVENTS = query("sum_of_upstream_events")
CAUSES = many(query("causes"))
USE_UPSTREAM_EVENTS = query("use_upstream_events")
DROP_ALL_UPSTREAM_EVENTS = query("drop_all_upstream_events")
UNFOLLOW = query("unfollow")
FOLLOW = query("follow")
LOCK_FOLLOWS = query("lock_follows")
CHAIN = query("chain")
LOCK_JOBS = query("lock_jobs")

MAX_CHAIN_LENGTH: Final = 10_000
_ENDS: Final = frozenset(status.value for status in RAN)


class WaitingEvents(Struct, frozen=True):
    """The number of fires of a following job that come from upstream events and are not planned yet, with the first and
    the last of them."""

    count: int
    first: Micros
    last: Micros

    @property
    def forgone(self) -> Span:
        return Span(self.first, self.last, self.count, Verdict.MISSED, FORGONE)


class Follows(StorePart):
    async def apply_upstream_events(self, limit: int) -> int:
        applied, after = 0, ""
        while True:
            found = await self._followers_with_new_events(after, limit)
            applied += await self._apply(found)
            if applied or len(found) < limit:
                return applied
            after = found[-1]  # none of these jobs can be read or changed: skip them

    async def _followers_with_new_events(self, after: str, limit: int) -> list[str]:
        async def work(tx: Tx) -> list[str]:
            return [job_id for (job_id,) in await tx.fetch(FOLLOWERS_WITH_NEW_EVENTS, after=after, limit=limit)]

        return await self._db.read(work)

    async def _apply(self, followers: Sequence[str]) -> int:
        applied = 0

        async def apply_to(ids: Sequence[str]) -> None:
            async def work(tx: Tx) -> int:
                rows = await tx.fetch(LOCK_JOBS, b=list(ids))
                if missing := set(ids) - {job.id for job in starmap(JobRow, rows)}:
                    await tx.execute(DROP_ALL_UPSTREAM_EVENTS, b=sorted(missing))
                before = {job.id: job for job in await read_jobs(tx, rows)}
                after = await apply_upstream_events(tx, before)
                return sum(after[job_id] is not job for job_id, job in before.items())

            nonlocal applied
            applied += await self._db.write(work)

        if followers:
            await in_halves(followers, apply_to, unread)
        return applied

    async def upstream_events(self, job_ids: Sequence[str], limit: int) -> dict[str, tuple[Micros, ...]]:
        async def work(tx: Tx) -> dict[str, tuple[Micros, ...]]:
            found: dict[str, list[Micros]] = {job_id: [] for job_id in job_ids}
            for job_id, at in await tx.fetch(WAITING_UPSTREAM_EVENTS, b=list(found), limit=limit):
                found[job_id].append(at)
            return {job_id: tuple(instants) for job_id, instants in found.items()}

        return await self._db.read(work) if job_ids else {}


# --- ends ---------------------------------------------------------------------------------------------------------


async def record_upstream_ends(tx: Tx, ended_runs: Iterable[NewHistoryRow]) -> set[str]:
    """Store the ends of runs as upstream events of the jobs that follow. Return the ids of the runs with such a job."""
    ends = [(run.id, run.job_id, run.status) for run in ended_runs if run.status in _ENDS and run.origin != Origin.TASK]
    return {run_id for (run_id,) in await tx.fetch(INSERT_UPSTREAM_EVENTS, b=ends)} if ends else set()


# --- fires from ends ----------------------------------------------------------------------------------------------


async def apply_upstream_events(tx: Tx, jobs: Mapping[str, Job]) -> dict[str, Job]:
    """Turn the new upstream events of jobs into fires, and return the jobs with their new next fires. Events that the
    follow rule of their job does not cover (any more) are deleted. The jobs are locked."""
    found = dict(jobs)
    new_events = [UpstreamEventRow(*row) for row in await tx.fetch(NEW_UPSTREAM_EVENTS, b=sorted(jobs))] if jobs else []
    if not new_events:
        return found
    followers = sorted({each.follower for each in new_events})
    last = {each.follower: each.last_at for each in starmap(FollowRow, await tx.fetch(FOLLOWS_BY_ID, b=followers))}
    applied: list[tuple[str, str, Micros]] = []
    dropped: list[tuple[str, str]] = []
    for each in new_events:
        job = found[each.follower]
        at = max(each.ended_at, last.get(job.id, 0) + 1, job.updated_at + 1)
        if job.id not in last or not follow.concerns(job, each.job_id, Status(each.status), at):
            dropped.append((each.follower, each.cause))
            continue
        applied.append((each.follower, each.cause, at))
        last[job.id] = at
        found[job.id] = _with_instant(job, at)
    if dropped:
        await tx.execute(DROP_UPSTREAM_EVENTS, b=dropped)
    if applied:
        changed = {job_id for job_id, _, _ in applied}
        await tx.execute(SET_FIRE_TIMES, b=applied)
        await tx.execute(NOTE_LAST, b=[(job_id, last[job_id]) for job_id in sorted(changed)])
        moved = [(job_id, found[job_id].next_fire_at, found[job_id].plan_at) for job_id in sorted(changed)]
        await tx.execute(MOVE_FOLLOWERS, b=moved)
    return found


def _with_instant(job: Job, at: Micros) -> Job:
    next_fire_at = at if job.next_fire_at is None else min(job.next_fire_at, at)
    if job.state is not JobState.ACTIVE:
        return job.with_(next_fire_at=next_fire_at)
    plan_at = next_fire_at if job.plan_at is None else min(job.plan_at, next_fire_at)
    return job.with_(next_fire_at=next_fire_at, plan_at=plan_at)


# --- planning -----------------------------------------------------------------------------------------------------


async def use(
    tx: Tx, plans: Sequence[JobPlan], now: Micros
) -> tuple[dict[str, JobPlan], dict[tuple[str, Micros], str]]:
    """Use up the upstream events whose fires are in these plans. Return the plans, whose next fires are now those of
    the remaining upstream events, and the upstream run of each fire, by job and fire. The jobs are locked."""
    await apply_upstream_events(tx, {plan.job.id: plan.job for plan in plans})
    used = {plan.job.id: _used_until(plan) for plan in plans}
    ends: dict[str, dict[Micros, str]] = {}
    for job_id, at, cause in await tx.fetch(CAUSES, b=list(used.items())):
        ends.setdefault(job_id, {})[at] = cause
    causes = {key: cause for plan in plans for key, cause in _causes(plan, ends.get(plan.job.id, {}))}
    await tx.execute(USE_UPSTREAM_EVENTS, b=[(plan.job.id, used[plan.job.id], plan.deferred_fire) for plan in plans])
    await tx.execute(NOTE_LAST, b=list(used.items()))
    waiting = await sums(tx, list(used.items()))
    moved: dict[str, JobPlan] = {}
    for plan in plans:
        job = plan.job.with_(fired=plan.job.fired + plan.runs)
        left = waiting.get(job.id)
        known = [
            *([left.first] if left is not None else []),
            *([plan.next_fire_at] if plan.deferred_fire is not None else []),
        ]
        upcoming = None if job.exhausted else min((at for at in known if at is not None), default=None)
        look_again = None if job.exhausted else planning.look_after(job, upcoming, now)
        moved[job.id] = structs.replace(plan, next_fire_at=upcoming, plan_at=look_again)
    if over := [each.job.id for each in moved.values() if each.plan_at is None and _is_over(each, now)]:
        await unfollow(tx, over)
    return moved, causes


def _causes(plan: JobPlan, ends: Mapping[Micros, str]) -> Iterator[tuple[tuple[str, Micros], str]]:
    """Yield each fire of a plan with its upstream run. For a fire that a calendar deferred, that is the last run whose
    fire was excluded."""
    instants = sorted(ends)
    for step in plan.steps:
        if isinstance(step, PlannedFire) and (place := bisect_right(instants, step.fire_time)):
            yield (plan.job.id, step.fire_time), ends[instants[place - 1]]


def _used_until(plan: JobPlan) -> Micros:
    return max(_last_step(plan), plan.job.deferred_fire or 0)


def _last_step(plan: JobPlan) -> Micros:
    match plan.steps:
        case (*_, PlannedFire(fire_time)):
            return fire_time
        case (*_, Span() as span):
            return span.last
        case _:
            return 0


def _is_over(plan: JobPlan, now: Micros) -> bool:
    spec = plan.job.spec
    exhausted = plan.job.with_(fired=plan.job.fired + plan.runs).exhausted
    return exhausted or (spec.ends is not None and spec.ends <= now)


async def sums(tx: Tx, after: Sequence[tuple[str, Micros]]) -> dict[str, WaitingEvents]:
    """Return, for each job with fires from upstream events after the given instant that are not planned yet, their
    number, the first and the last."""
    rows = await tx.fetch(SUM_OF_UPSTREAM_EVENTS, b=after)
    return {job_id: WaitingEvents(count, first, last) for job_id, count, first, last in rows}


# --- changes ------------------------------------------------------------------------------------------------------


async def begin(tx: Tx, jobs: Iterable[Job]) -> None:
    """Store which jobs new jobs follow. No job follows a new one yet, so that no circle can arise."""
    if rows := [as_tuple(_row(job)) for job in jobs if job.spec.follows is not None]:
        await tx.insert(FOLLOWS, rows)


async def check(tx: Tx, amendments: Iterable[Amendment]) -> None:
    """Raise `InvalidSchedule` if an amendment would make a job follow one that does not exist, or jobs follow each
    other in a circle. If an amendment has a follow rule, the table of follows stays locked until the end of the
    transaction, so that two amendments cannot make a circle together."""
    rewired = [
        (each.job, wanted)
        for each in amendments
        if (wanted := each.spec.follows) is not None
        and each.spec != each.job.spec
        and each.state is not JobState.CANCELLED
    ]
    if not rewired:
        return
    await tx.execute(LOCK_FOLLOWS)
    for job, wanted in rewired:
        chain = await tx.fetch(CHAIN, job_id=wanted.job, limit=MAX_CHAIN_LENGTH)
        if not chain and wanted != job.spec.follows:
            raise InvalidSchedule(f"there is no job {wanted.job!r} to follow", "/schedule/job")
        ids = [job_id for job_id, _ in chain]
        if job.id in ids:
            names = [name or job_id for job_id, name in chain[: ids.index(job.id) + 1]]
            cycle = " follows ".join([names[-1], *names])
            raise InvalidSchedule(f"jobs cannot follow each other in a circle: {cycle}", "/schedule/job")


async def waiting_of(tx: Tx, jobs: Iterable[Job]) -> dict[str, WaitingEvents]:
    """Return the number, the first and the last of the fires of each following job that are not planned yet. If a
    calendar deferred a fire, only later fires are returned.
    """
    following = [(job.id, job.deferred_fire or 0) for job in jobs if job.spec.follows is not None]
    return await sums(tx, following) if following else {}


async def rewire(tx: Tx, changes: Sequence[tuple[Amendment, Job, Job]]) -> None:
    """Store which job each amended job follows. A change consists of the amendment, the job before it and the job after
    it. The jobs are locked.
    """
    rows: list[Row] = []
    restarted: list[str] = []
    over: list[str] = []
    used: list[tuple[str, Micros, None]] = []
    for amendment, old, new in changes:
        if old.spec.follows is None and new.spec.follows is None:
            continue
        if not follow.goes_on(new):
            over.append(new.id)
            continue
        if not amendment.keep_schedule:
            restarted.append(new.id)
        elif old.deferred_fire is not None and new.deferred_fire is None:
            used.append((old.id, old.deferred_fire, None))
        if old.spec != new.spec:
            rows.append(as_tuple(_row(new)))
    if over:
        await unfollow(tx, over)
    if restarted:
        await tx.execute(DROP_ALL_UPSTREAM_EVENTS, b=restarted)
    if used:
        await tx.execute(USE_UPSTREAM_EVENTS, b=used)
    if rows:
        await tx.execute(FOLLOW, b=rows)


async def unfollow(tx: Tx, job_ids: Sequence[str]) -> None:
    await tx.execute(DROP_ALL_UPSTREAM_EVENTS, b=list(job_ids))
    await tx.execute(UNFOLLOW, b=list(job_ids))


def _row(job: Job) -> FollowRow:
    wanted = job.spec.follows
    assert wanted is not None
    return FollowRow(
        job.id,
        wanted.job,
        int(follow.wants(wanted.on, Status.SUCCEEDED)),
        int(follow.wants(wanted.on, Status.DEAD)),
        job.updated_at,
    )
