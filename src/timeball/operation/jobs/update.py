"""Update a live job. Fires up to the instant of the update use the old version, later fires the new version."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from timeball.domain.errors import Conflict, Invalid, PreconditionFailed
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobSpec, JobState, OffloadedSpec, offloaded, workflow_of
from timeball.domain.planning import planning
from timeball.domain.schedule import schedule
from timeball.domain.schedule.schedule import Window
from timeball.operation.context import OperationContext
from timeball.operation.find import find_job
from timeball.operation.jobs.amend import amend
from timeball.operation.jobs.check_priority import refused_priority
from timeball.operation.jobs.check_tasks import refused_tasks
from timeball.operation.jobs.follow import followed, pointed_at
from timeball.operation.jobs.missing import no_place, unknown_tasks
from timeball.operation.jobs.warn import warn
from timeball.operation.schedules.closed_times import checked_closures
from timeball.ports.store.jobs import Amendment, JobStatus
from timeball.slices import Steps, in_slices

Change = Callable[[JobSpec], JobSpec | Steps[JobSpec]]
"""Makes the new spec from the current one. A change that takes long is made in steps."""


async def update(
    context: OperationContext,
    tenant: str,
    job_id: str,
    change: Change,
    *,
    if_match: int | None = None,
    by: str | None = None,
) -> JobStatus:
    """Replace the spec of a job by the result of `change`. An update that changes nothing creates no new version. `by`
    is the name of the key of the request; it is stored with the new version."""
    place = _PreparedChange(context, job_id, change)
    spec = (await find_job(context, tenant, job_id)).job.spec
    wanted = await place.changed(spec)
    if (
        wanted.follows is not None and wanted.follows != spec.follows
    ):  # a job that is followed already may have been deleted
        place.point(wanted.follows.job, await followed(context, tenant, wanted.follows.job))
        wanted = await place.changed(spec)
    if wanted.result_location is not None and not context.large_value_store.takes:
        raise no_place()
    if (refused := refused_tasks(wanted) or refused_priority(context.limits, tenant, wanted, spec)) is not None:
        raise refused
    if wanted.task_id is not None and await context.store.task(tenant, wanted.task_id) is None:
        raise Invalid(f"there is no registered task {wanted.task_id!r}", "/taskId")
    if wanted.calendars:
        await checked_closures(context, tenant, wanted.calendars)
    for named in {task.task_id for task in workflow_of(wanted) if task.task_id is not None}:
        if await context.store.task(tenant, named) is None and (wrong := unknown_tasks(wanted, {named})):
            raise wrong

    def decide(job: Job, now: Micros) -> Amendment | None:
        if if_match is not None and job.version != if_match:
            raise PreconditionFailed(f"job {job_id} is at version {job.version}, not {if_match}; read it again")
        if job.state is JobState.CANCELLED:
            raise Conflict(f"job {job_id} was cancelled; that is final. Create a new one")
        spec = place.known(job.spec)
        return None if spec == job.spec else structs.replace(_amendment(job, spec, now), by=by)

    while True:
        try:
            await amend(context, tenant, job_id, decide)
            break
        except _NotPrepared as error:  # the job was changed in between
            await place.changed(error.spec)
    found = await find_job(context, tenant, job_id)
    [warnings] = await warn(context, [(tenant, found.job.spec)])
    return structs.replace(found, warnings=warnings)


class _NotPrepared(Exception):
    """Raised by the `decide` of an update if the job's current `spec` is not one for which the new spec was computed,
    because the job was changed in between. `update` then computes the new spec for `spec` and tries again."""

    def __init__(self, spec: JobSpec) -> None:
        super().__init__()
        self.spec = spec


class _PreparedChange:
    """The new specs that a change makes from the specs it was applied to. They are made before the transaction: in
    slices, because a change may take long; large parameters are read before the change and offloaded after it."""

    def __init__(self, context: OperationContext, job_id: str, change: Change) -> None:
        self._context = context
        self._large_value_store = context.large_value_store
        self._job_id = job_id
        self._change = change
        self._known: list[tuple[JobSpec, JobSpec]] = []
        self._named: tuple[str, str] | None = None

    def point(self, named: str, job_id: str) -> None:
        """From now on, replace the name `named` of the followed job by its id in the new specs. Those made before are
        dropped."""
        self._named = (named, job_id)
        self._known.clear()

    async def changed(self, spec: JobSpec) -> JobSpec:
        whole = await self._large_value_store.whole(spec)
        made = self._change(whole)
        new = made if isinstance(made, JobSpec) else await in_slices(made, self._context.clock)
        if self._named is not None and new.follows is not None and new.follows.job == self._named[0]:
            new = pointed_at(new, self._named[1])
        if isinstance(spec, OffloadedSpec) and new.parameters == whole.parameters:
            new = offloaded(new, spec.parameters_at)
        elif self._large_value_store.takes and new.parameters is not whole.parameters:
            new = (await self._large_value_store.offload({self._job_id: new}))[self._job_id]
        self._known.append((spec, new))
        return new

    def known(self, spec: JobSpec) -> JobSpec:
        for old, new in reversed(self._known):
            if old == spec:
                return new
        raise _NotPrepared(spec)


def _amendment(job: Job, spec: JobSpec, now: Micros) -> Amendment:
    amendment = Amendment(
        job=job,
        spec=spec,
        state=job.state,
        keep_schedule=True,
        pause_reason=job.pause_reason,
        paused_until=job.paused_until,
    )
    window = spec.schedule
    stays = isinstance(window, Window) and window.same_place(job.spec.schedule)
    edited = job.with_(spec=spec, slot=job.slot if stays else None)
    same_instants = stays is isinstance(window, Window) and schedule.same_instants(
        spec.schedule, job.spec.schedule, edited.spread, job.spread
    )
    same_bounds = (spec.starts, spec.ends) == (job.spec.starts, job.spec.ends)
    if same_instants and same_bounds and not _ends_or_goes_on(job, edited):
        return amendment
    edited = edited.with_(anchor=_anchor(job, spec, now, same_instants))
    if spec.follows is not None:
        return structs.replace(amendment, keep_schedule=False, anchor=edited.anchor)
    # `first_fire` refuses a schedule without a fire. If only its bounds change, the user may want it to end.
    first = next(planning.fires(edited, now), None) if same_instants else planning.first_fire(edited, now)
    return structs.replace(amendment, keep_schedule=False, next_fire_at=first, anchor=edited.anchor)


def _ends_or_goes_on(job: Job, edited: Job) -> bool:
    """True if another `maxRuns` makes a finished schedule continue, or ends a paused schedule whose fires during the
    pause still need a verdict."""
    if edited.exhausted:
        return job.state is JobState.PAUSED and job.next_fire_at is not None
    return job.exhausted


def _anchor(job: Job, spec: JobSpec, now: Micros, same_instants: bool) -> Micros:
    if spec.starts is not None:
        return spec.starts
    return min(job.anchor, now) if same_instants else now
