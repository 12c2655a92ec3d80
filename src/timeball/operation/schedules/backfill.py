"""Backfill: run the fires of a past range, again or for the first time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, assert_never

import structlog
from msgspec import Struct

from timeball.domain import ids
from timeball.domain.errors import Conflict, IdempotencyMismatch, Invalid, NotFound
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobState, without_parameters
from timeball.domain.planning import backfill as rules
from timeball.domain.planning.backfill import Backfill, BackfillFires, BackfillProgress, Range
from timeball.domain.schedule.calendar import NamedCalendar
from timeball.operation.context import OperationContext
from timeball.operation.find import find_job
from timeball.operation.schedules.closed_times import calendars_of_job, compile_calendars
from timeball.ports.store.jobs import Accepted, Idempotency, Mismatched, Replayed
from timeball.ports.wakeups import Topic
from timeball.slices import first_found

_log = structlog.get_logger()
BY_REQUEST: Final = "its backfill was cancelled"


class NewBackfill(Struct, frozen=True, kw_only=True):
    tenant: str
    job_id: str
    since: Micros
    until: Micros | None
    """None means until now."""
    parallelism: int = 1
    key: str | None = None
    """The idempotency key, if the client sent one."""
    fingerprint: str = ""


class Begun(Struct, frozen=True):
    answer: bytes
    """The answer; the same for every repetition of the request."""
    backfill_id: str
    repeated: bool = False


async def survey(context: OperationContext, new: NewBackfill) -> Range:
    """Return the number of fires that a backfill would have, the first and the last of them. Nothing is written."""
    job = (await find_job(context, new.tenant, new.job_id)).job
    calendars = await calendars_of_job(context, job)
    now = context.store.now()
    return await _survey(job, new.since, now if new.until is None else new.until, now, calendars)


async def _survey(job: Job, since: Micros, until: Micros, now: Micros, calendars: Sequence[NamedCalendar]) -> Range:
    found = await first_found(rules.survey(job, since, until, now, calendars=calendars))
    assert found is not None
    return found


async def begin(context: OperationContext, new: NewBackfill, render: Callable[[BackfillProgress], bytes]) -> Begun:
    """Create a backfill. It is durable when this returns. Each of its fires becomes exactly one run, unless the
    backfill or the job is cancelled before."""
    if new.key is not None:
        [known] = await context.store.answered([(new.tenant, new.key, new.fingerprint)])
        if known is not None:
            return _repetition(known, new.key)
    job = (await find_job(context, new.tenant, new.job_id)).job
    if job.state is JobState.CANCELLED:
        raise Conflict(f"job {job.id} was cancelled; it cannot run any more")
    calendars = await calendars_of_job(context, job)
    now = context.store.now()
    until = now if new.until is None else new.until
    found = await _survey(job, new.since, until, now, calendars)
    if found.count == 0:
        raise Invalid("the job's schedule has no fire in this range", "/from")
    asked = Backfill(
        id=ids.make("b", now, context.rng),
        tenant=new.tenant,
        job_id=job.id,
        spec=without_parameters(job.spec),
        calendars=tuple(calendars),
        anchor=found.anchor,
        slot=job.slot,
        since=new.since,
        until=until,
        parallelism=new.parallelism,
        total=found.count,
        cursor=found.first,
        created_at=now,
    )
    answer = render(BackfillProgress(asked, job.spec.name, job.state, 0))
    key = None if new.key is None else Idempotency(new.key, new.fingerprint, answer)
    match await context.store.begin_backfill(asked, key):
        case Accepted():
            context.wakeups.wake(Topic.BACKFILL)
            return Begun(answer, asked.id)
        case Replayed() | Mismatched() as first:
            return _repetition(first, new.key or "")
        case None:
            raise Conflict(f"job {job.id} was cancelled; it cannot run any more")
        case unexpected:
            assert_never(unexpected)


async def advance(context: OperationContext, backfill_ids: Sequence[str]) -> int:
    """Create the next runs of backfills, and return their number. For a backfill with calendars, the next fires that no
    calendar excludes are found before the transaction."""
    asked = [each.backfill for each in (await context.store.backfills(backfill_ids)).values()]
    bound = [each for each in asked if each.calendars and each.cursor is not None]
    ahead: dict[str, BackfillFires] = {}
    jobs = await context.store.jobs([each.job_id for each in bound]) if bound else {}
    for each in bound:
        if each.job_id not in jobs:
            continue
        try:
            await compile_calendars(each.calendars)
            found = await first_found(rules.look_ahead(each, jobs[each.job_id].job))
        except Exception as error:  # this backfill waits; the others must not
            _log.warning("the next fires of a backfill cannot be found", backfill=each.id, reason=str(error))
            continue
        ahead |= {} if found is None else {each.id: found}
    return await context.store.advance_backfills(backfill_ids, ahead)


def _repetition(known: Replayed | Mismatched, key: str) -> Begun:
    if isinstance(known, Replayed):
        return Begun(known.answer, known.job_id, repeated=True)
    raise IdempotencyMismatch(
        f"the idempotency key {key!r} was used for {known.job_id} with another request; use a new key for a new request"
    )


async def find_backfill(context: OperationContext, tenant: str, backfill_id: str) -> BackfillProgress:
    found = (await context.store.backfills([backfill_id])).get(backfill_id)
    if found is None or found.backfill.tenant != tenant:
        raise NotFound("backfill", backfill_id)
    return found


async def cancel_backfill(context: OperationContext, tenant: str, backfill_id: str) -> BackfillProgress:
    """Cancel a backfill: no more runs are created, and live ones are cancelled. Repeating it changes nothing. Raise
    `Conflict` if the backfill is complete."""
    await find_backfill(context, tenant, backfill_id)
    if await context.store.cancel_backfill(backfill_id, BY_REQUEST):
        context.wakeups.wake(Topic.CANCEL)
        context.wakeups.wake(Topic.READY)
    found = await find_backfill(context, tenant, backfill_id)
    if found.status != "cancelled":
        raise Conflict(f"backfill {backfill_id} is {found.status}; it cannot be cancelled any more")
    return found
