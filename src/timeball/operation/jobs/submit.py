"""Submit jobs. An accepted job is durable, and a fire in the near future is stored as a run before the answer is
sent."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from operator import attrgetter
from typing import Final, assert_never

import msgspec
from msgspec import Struct, structs

from timeball.domain import ids
from timeball.domain.audit_log.change import AuditedRequest
from timeball.domain.errors import IdempotencyMismatch, Invalid, InvalidSchedule, TimeballError, Unavailable
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobSpec
from timeball.domain.job.large_values import LARGE
from timeball.domain.planning import planning, upcoming_fires
from timeball.domain.run.run import NewRun, new_run
from timeball.domain.schedule.calendar import NamedCalendar
from timeball.domain.schedule.closed_times import Closures
from timeball.domain.schedule.schedule import Date, Follow, Immediate, Window
from timeball.operation.context import OperationContext
from timeball.operation.group_commit import GroupCommit
from timeball.operation.jobs import submit_spans
from timeball.operation.jobs.check_priority import refused_priority
from timeball.operation.jobs.check_tasks import CHECKED, refused_tasks
from timeball.operation.jobs.follow import followed, pointed_at
from timeball.operation.jobs.missing import no_calendar, no_place, task_ids, unknown_tasks
from timeball.operation.jobs.warn import warn
from timeball.operation.schedules.closed_times import compiled, never_together
from timeball.ports.store.jobs import (
    Accepted,
    Idempotency,
    JobStatus,
    Mismatched,
    NeverFires,
    NoCalendar,
    NoTenant,
    OverQuota,
    Replayed,
    Submission,
    Submitted,
)
from timeball.ports.wakeups import Topic
from timeball.slices import FEW, map_in_slices


class NewJob(Struct, frozen=True, gc=False):
    tenant: str
    spec: JobSpec
    key: str | None = None
    """The idempotency key, if the client sent one."""
    fingerprint: str = ""
    """A hash of the request, which separates a repetition from another request with the same key."""
    size: int = 0
    """The approximate size of the request."""
    request: AuditedRequest | None = None
    """The request for the audit log, which also has the credential; None: the job has no author."""
    traceparent: str | None = None
    """The trace of the client, as in the header `traceparent`. The runs of a one-shot continue it."""


class Created(Struct, frozen=True, gc=False):
    job_id: str
    answer: bytes | None
    """The answer to the first request with this key; only for jobs with an idempotency key."""
    job: JobStatus | None
    """None if the request was a repetition."""


class _Around(Struct, frozen=True):
    """What was found when the tasks, calendars, jobs and workers that submitted jobs need were looked up. The key of
    each mapping is the position of a job in the batch."""

    refused: Mapping[int, TimeballError] = {}
    closures: Mapping[int, Closures] = {}
    """The closed times of jobs with calendars."""
    warnings: Mapping[int, tuple[str, ...]] = {}


_NOTHING: Final = _Around()
QUICK: Final = frozenset({Immediate, Date})
"""The schedule types whose first fire takes only a few microseconds to compute."""
MAX_SLOW_TOGETHER: Final = 4
"""Maximum number of jobs with schedules that are not in `QUICK` that are prepared before the event loop gets a turn:
each takes at most 10 ms."""
MAX_WAITING_JOBS: Final = 50_000
"""Maximum number of jobs that wait for a commit. More would wait for seconds, and take memory for as long."""
_SIZE: Final = attrgetter("size")


class Submit:
    """Submits jobs. Concurrent calls share commits."""

    def __init__(self, context: OperationContext, render: Callable[[JobStatus], bytes]) -> None:
        self._context = context
        self._render = render
        self._commit = GroupCommit(self._persist, max_waiting=MAX_WAITING_JOBS, sizes=context.metrics.submits)

    async def __call__(self, jobs: Sequence[NewJob]) -> list[Created | TimeballError]:
        if (tracing := self._context.tracing) is None:
            return await self._create(jobs)
        start = tracing.now()
        created = await self._create(jobs)
        pairs = zip(jobs, created, strict=True)
        new = [(job, each.job_id) for job, each in pairs if isinstance(each, Created) and each.job is not None]
        submit_spans.record(tracing, [(j, job.tenant, job.spec.name, job.traceparent) for job, j in new], start)
        return created

    async def _create(self, jobs: Sequence[NewJob]) -> list[Created | TimeballError]:
        if Follow in _schedule_types(jobs):
            jobs = await self._named_by_ids(jobs)
        if jobs and self._context.large_value_store.takes and max(map(_SIZE, jobs)) > LARGE:
            return await self._submit_large(jobs)
        return await self._submit(jobs)

    async def _named_by_ids(self, jobs: Sequence[NewJob]) -> list[NewJob]:
        """Return the same jobs, with the followed jobs named by id. A name that is not found is refused later."""
        found = await self._followed(jobs)
        return [
            structs.replace(job, spec=pointed_at(job.spec, job_id))
            if job.spec.follows is not None and isinstance(job_id := found[job.tenant, job.spec.follows.job], str)
            else job
            for job in jobs
        ]

    async def _followed(self, jobs: Sequence[NewJob]) -> dict[tuple[str, str], str | InvalidSchedule]:
        """Return the ids of followed jobs, or the error for each, by tenant and given name. Each name is looked up
        once."""
        wanted = dict.fromkeys((job.tenant, job.spec.follows.job) for job in jobs if job.spec.follows is not None)
        found: dict[tuple[str, str], str | InvalidSchedule] = {}
        for tenant, named in wanted:
            try:
                found[tenant, named] = await followed(self._context, tenant, named)
            except InvalidSchedule as error:
                found[tenant, named] = error
        return found

    async def _submit_large(self, jobs: Sequence[NewJob]) -> list[Created | TimeballError]:
        """Submit jobs of which some have large parameters. These parameters are offloaded before a job is stored."""
        job_ids = ids.many("j", self._context.store.now(), self._context.rng, len(jobs))
        named = dict(zip(job_ids, jobs, strict=True))
        specs = {job_id: job.spec for job_id, job in named.items() if job.size > LARGE}
        refused: dict[str, TimeballError] = {}
        try:
            for job_id, spec in (await self._context.large_value_store.offload(specs)).items():
                named[job_id] = structs.replace(named[job_id], spec=spec)
        except Unavailable as error:
            refused = dict.fromkeys(specs, error)
        accepted = {job_id: job for job_id, job in named.items() if job_id not in refused}
        created = dict(zip(accepted, await self._submit(list(accepted.values()), list(accepted)), strict=True))
        created |= refused
        return [_as_written(created[job_id], job.spec) for job_id, job in zip(job_ids, jobs, strict=True)]

    async def _submit(
        self, jobs: Sequence[NewJob], job_ids: Sequence[str] | None = None
    ) -> list[Created | TimeballError]:
        now, rng, count = self._context.store.now(), self._context.rng, len(jobs)
        around = await self._look_around(jobs) if [job for job in jobs if job.spec.refers] else _NOTHING
        job_ids = ids.many("j", now, rng, count) if job_ids is None else job_ids
        run_ids = ids.many("r", now, rng, count)
        refused, warnings = around.refused, around.warnings
        bound = {job_ids[at]: closures for at, closures in around.closures.items()} if around.closures else {}

        def prepare(places: Sequence[int]) -> list[Submission | Created | TimeballError]:
            if around is _NOTHING:
                return [self._prepare(jobs[at], job_ids[at], run_ids[at], (), now, bound) for at in places]
            return [
                refused.get(at) or self._prepare(jobs[at], job_ids[at], run_ids[at], warnings.get(at, ()), now, bound)
                for at in places
            ]

        if count == 1:  # most requests: one job needs no slices
            prepared = prepare(range(1))
        else:
            together = _prepared_together(jobs, around)
            prepared = await map_in_slices(prepare, range(count), self._context.clock, together=together)
        submissions = [item for item in prepared if isinstance(item, Submission)]
        if len(submissions) < count:
            await self._repeat_answers(jobs, prepared)
        results = iter(await self._commit(submissions))

        def answer(places: Sequence[int]) -> list[Created | TimeballError]:
            return [
                _answer(item, next(results), warnings.get(at, ()), bound, self._render)
                if isinstance(item := prepared[at], Submission)
                else item
                for at in places
            ]

        if count == 1:
            return answer(range(1))
        return await map_in_slices(answer, range(count), self._context.clock, together=1 if bound else FEW)

    async def _look_around(self, jobs: Sequence[NewJob]) -> _Around:
        named = {(job.tenant, job.spec.task_id) for job in jobs if job.spec.task_id is not None}
        named |= {(job.tenant, task_id) for job in jobs if job.spec.is_workflow for task_id in task_ids(job.spec)}
        unknown = await self._unknown(named) if named else named
        referred = {(job.tenant, name) for job in jobs if job.spec.calendars for name in job.spec.calendars}
        calendars = await self._context.store.calendars(list(referred)) if referred else {}
        warnings = await warn(self._context, [(job.tenant, job.spec) for job in jobs])
        wrong = {at: self._missing(job, unknown, calendars) for at, job in enumerate(jobs)}
        to_follow = await self._followed(jobs)
        for at, job in enumerate(jobs):
            if job.spec.follows is not None and wrong[at] is None:
                answer = to_follow[job.tenant, job.spec.follows.job]
                wrong[at] = answer if isinstance(answer, InvalidSchedule) else None
        closures = await self._closures(jobs, calendars, wrong)
        return _Around(
            refused={at: error for at, error in wrong.items() if error is not None},
            closures=closures,
            warnings=dict(enumerate(warnings)),
        )

    async def _closures(
        self,
        jobs: Sequence[NewJob],
        calendars: Mapping[tuple[str, str], NamedCalendar],
        wrong: dict[int, Invalid | None],
    ) -> dict[int, Closures]:
        """Return the closed times of the calendars of jobs, by position. Calendars that are never open together are an
        error."""
        shared: dict[tuple[tuple[str, str], ...], Closures | Invalid] = {}
        found: dict[int, Closures] = {}
        for at, job in enumerate(jobs):
            if not job.spec.bound or wrong[at] is not None:
                continue
            keys = tuple((job.tenant, name) for name in dict.fromkeys(job.spec.calendars))
            if keys not in shared:
                closures = await compiled([calendars[key] for key in keys])
                shared[keys] = await never_together(closures) or closures
            if isinstance(known := shared[keys], Invalid):
                wrong[at] = known
            else:
                found[at] = known
        return found

    def _missing(
        self, new: NewJob, unknown: set[tuple[str, str]], calendars: Container[tuple[str, str]]
    ) -> Invalid | None:
        """Return the error for a job that refers to a task or calendar that does not exist, or that needs object
        storage which is not configured; None if nothing is missing."""
        if new.spec.task_id is not None and (new.tenant, new.spec.task_id) in unknown:
            return Invalid(f"there is no registered task {new.spec.task_id!r}", "/taskId")
        for at, name in enumerate(new.spec.calendars):
            if (new.tenant, name) not in calendars:
                return no_calendar(name, at)
        if new.spec.is_workflow and (wrong := unknown_tasks(new.spec, {each for _, each in unknown})):
            return wrong
        if new.spec.result_location is not None and not self._context.large_value_store.takes:
            return no_place()
        return None

    def _prepare(
        self,
        new: NewJob,
        job_id: str,
        run_id: str,
        warnings: tuple[str, ...],
        now: Micros,
        bound: Mapping[str, Closures],
    ) -> Submission | TimeballError:
        if type(new.spec.task) in CHECKED and (refused := refused_tasks(new.spec)) is not None:
            return refused
        if (refused := refused_priority(self._context.limits, new.tenant, new.spec)) is not None:
            return refused
        by = None if new.request is None else new.request.actor.id
        try:
            job, fire = planning.begin(job_id, new.tenant, new.spec, now, by)
        except InvalidSchedule as error:
            return error
        tracing = self._context.tracing
        if (tracing is not None or new.traceparent is not None) and new.spec.one_shot:
            job = job.with_(traceparent=submit_spans.context_for_runs(tracing, new.traceparent, job_id))
        runs: tuple[NewRun, ...] = ()
        if fire is not None:
            runs = (new_run(job, run_id, fire.origin, fire.fire_time, now, eligible_at=fire.eligible_at),)
        audited = None if new.spec.one_shot else new.request
        if new.key is None:
            return Submission(job, runs, audited=audited)

        def render(placed: Job) -> bytes:
            return self._render(_status(placed, runs, warnings, bound))

        key = Idempotency(new.key, new.fingerprint, render(job))
        return Submission(job, runs, key, render if isinstance(new.spec.schedule, Window) else None, audited)

    async def _repeat_answers(
        self, jobs: Sequence[NewJob], prepared: list[Submission | Created | TimeballError]
    ) -> None:
        """Give repeated requests the answer to the first request, even if they would be refused now."""
        refused = {
            at: (job.tenant, job.key, job.fingerprint)
            for at, job in enumerate(jobs)
            if job.key is not None and isinstance(prepared[at], TimeballError)
        }
        if refused:
            answered = await self._context.store.answered(list(refused.values()))
            for (at, (_, key, _)), known in zip(refused.items(), answered, strict=True):
                if known is not None:
                    prepared[at] = _repetition(known, key)

    async def _persist(self, submissions: Sequence[Submission]) -> Sequence[Submitted]:
        """Persist one batch. Due runs are assigned to idle workers in the same transaction, as far as there are any."""
        context = self._context
        async with context.idle_workers.reserve() as wants:
            try:
                results, claims = await context.store.submit_and_claim(submissions, wants)
            except Unavailable:
                if not wants:
                    raise
                # The repeated call finds out whether the jobs were committed, but not which runs were claimed.
                context.idle_workers.mark_uncertain(wants)
                results, claims = await context.store.submit_and_claim(submissions, ())
            await context.idle_workers.deliver(claims)
        if len(claims) < sum([len(submission.runs) for submission in submissions]):
            context.wakeups.wake(Topic.READY)
            if [submission for submission in submissions if submission.job.spec.is_workflow]:
                context.wakeups.wake(Topic.WORKFLOW)
        if [submission for submission in submissions if submission.job.plan_at is not None]:
            context.wakeups.wake(Topic.PLAN)
        return results

    async def _unknown(self, tasks: set[tuple[str, str]]) -> set[tuple[str, str]]:
        return {
            (tenant, task_id) for tenant, task_id in tasks if await self._context.store.task(tenant, task_id) is None
        }


def _prepared_together(jobs: Sequence[NewJob], around: _Around) -> int:
    """Return the number of jobs that `map_in_slices` prepares before it checks whether the event loop needs a turn."""
    if len(jobs) <= MAX_SLOW_TOGETHER:
        return 1
    if around is not _NOTHING or not _schedule_types(jobs) <= QUICK:
        return MAX_SLOW_TOGETHER
    return FEW if max(map(_SIZE, jobs)) <= LARGE else 1


def _schedule_types(jobs: Sequence[NewJob]) -> set[type]:
    return {type(job.spec.schedule) for job in jobs}


def _as_written(created: Created | TimeballError, spec: JobSpec) -> Created | TimeballError:
    """Return the created job with its parameters in place of their reference. A repeated request has the same
    parameters, because its fingerprint is equal."""
    if isinstance(created, TimeballError):
        return created
    answer, job = created.answer, created.job
    if answer is not None:
        body = msgspec.json.decode(answer)
        answer = msgspec.json.encode({**body, "parameters": spec.parameters})
    if job is not None:
        job = structs.replace(job, job=job.job.with_(spec=spec))
    return Created(created.job_id, answer, job)


def _answer(
    submission: Submission,
    result: Submitted,
    warnings: tuple[str, ...],
    bound: Mapping[str, Closures],
    render: Callable[[JobStatus], bytes],
) -> Created | TimeballError:
    idempotency = submission.idempotency
    match result:
        case Accepted():
            status = _status(result.placed or submission.job, submission.runs, warnings, bound)
            answer = idempotency.answer if idempotency else None
            if answer is not None and result.placed is not None:
                answer = render(status)
            return Created(result.job_id, answer, status)
        case Replayed() | Mismatched():
            return _repetition(result, idempotency.key if idempotency else "")
        case NeverFires(error) | NoTenant(error) | OverQuota(error):
            return error
        case NoCalendar(name):
            return no_calendar(name, submission.job.spec.calendars.index(name))
        case _:
            assert_never(result)


def _repetition(known: Replayed | Mismatched, key: str) -> Created | TimeballError:
    if isinstance(known, Replayed):
        return Created(known.job_id, known.answer, None)
    return IdempotencyMismatch(
        f"the idempotency key {key!r} was used for job {known.job_id} with another body;"
        " use a new key for a new request"
    )


def _status(job: Job, runs: Sequence[NewRun], warnings: tuple[str, ...], bound: Mapping[str, Closures]) -> JobStatus:
    """Return the status of a new job. `bound` has the closed times of jobs with calendars, by job id."""
    upcoming = runs[0].fire_time if runs else job.next_fire_at
    if not runs and job.id in bound:
        upcoming = next(upcoming_fires.coming(job, job.created_at, bound[job.id]), None)
    return JobStatus(job, "scheduled", upcoming, warnings)
