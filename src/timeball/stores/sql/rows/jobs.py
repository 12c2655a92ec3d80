"""Conversion of jobs to rows and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from timeball.domain.job.job import Job, JobState, decode_spec, encode_spec
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.rows.unreadable import unread
from timeball.stores.sql.rows.values import plain
from timeball.stores.sql.schema.jobs import JobRow, NewJobRow, PlacedJobRow, PlannedJobRow, TracedJobRow
from timeball.stores.sql.schema.table import as_tuple

WORKFLOW_TAG: Final = ""
"""The tag of every workflow, by which workflows are listed. A user cannot give it to a job: tags are not empty."""
MAX_INLINE_SIZE: Final = 64 * 1024
"""Maximum number of characters of specs that are decoded in the thread of the event loop."""
T = TypeVar("T")
_ID, _SPEC = map(JobRow.__struct_fields__.index, ("id", "spec"))


def new_job_row(job: Job) -> NewJobRow:
    """Return the row of a new job. The type of the row says which columns it has."""
    if job.traceparent is not None:
        trace: Row = (job.traceparent,)
        return TracedJobRow(*as_tuple(_one_shot(job)), *_planned(job), *trace)
    if job.spec.task_id is None and job.next_fire_at is None and job.plan_at is None:
        return _one_shot(job)
    if job.slot is None:
        return PlannedJobRow(*as_tuple(_one_shot(job)), *_planned(job))
    slot: Row = (job.slot,)
    return PlacedJobRow(*as_tuple(_one_shot(job)), *_planned(job), *slot)


def job_row(job: Job) -> JobRow:
    later: Row = (
        job.version,
        job.state.value,
        plain(job.pause_reason),
        job.paused_until,
        job.last_span,
        job.deferred_fire,
        job.slot,
        job.traceparent,
    )
    return JobRow(*as_tuple(_one_shot(job)), *_planned(job), *later)


def _one_shot(job: Job) -> NewJobRow:
    spec = job.spec
    return NewJobRow(
        job.id,
        job.tenant,
        spec.name and plain(spec.name),
        encode_spec(spec).decode(),
        spec.user_id and plain(spec.user_id),
        job.anchor,
        job.created_at,
        job.updated_at,
        job.fired,
        job.created_by,
    )


def _planned(job: Job) -> Row:
    return job.spec.task_id and plain(job.spec.task_id), job.next_fire_at, job.plan_at


def tag_rows(job: Job) -> list[Row]:
    rows = [(job.id, tag) for tag in dict.fromkeys(map(plain, job.spec.tags))]
    return [*rows, (job.id, WORKFLOW_TAG)] if job.spec.is_workflow else rows


def calendar_rows(job: Job) -> list[Row]:
    return [(job.id, name, job.tenant) for name in dict.fromkeys(job.spec.calendars)]


def job_of(row: Row) -> Job:
    found = JobRow(*row)
    return Job(
        id=found.id,
        tenant=found.tenant,
        spec=decode_spec(found.spec),
        version=found.version,
        state=JobState(found.state),
        anchor=found.anchor,
        next_fire_at=found.next_fire_at,
        plan_at=found.plan_at,
        created_at=found.created_at,
        updated_at=found.updated_at,
        pause_reason=found.pause_reason,
        last_span=found.last_span,
        fired=found.fired,
        paused_until=found.paused_until,
        deferred_fire=found.owed,
        slot=found.slot,
        created_by=found.created_by,
        traceparent=found.traceparent,
    )


def readable(rows: Iterable[Row], unreadable: list[tuple[Row, Exception]] | None = None) -> list[Job]:
    """Return the jobs of these rows, without those whose spec this version cannot read: an unknown time zone, or a
    field of a newer version. These are logged once per process, and appended to `unreadable`."""
    jobs: list[Job] = []
    for row in rows:
        try:
            jobs.append(job_of(row))
        except Exception as error:
            unread(row[_ID], error)
            if unreadable is not None:
                unreadable.append((row, error))
    return jobs


async def read_jobs(tx: Tx, rows: Sequence[Row], unreadable: list[tuple[Row, Exception]] | None = None) -> list[Job]:
    """Return the jobs of these rows, like `readable`, without blocking the event loop, however large the specs are."""
    size = sum(len(row[_SPEC]) for row in rows)
    return await computed(tx, size, partial(readable, rows, unreadable))


async def computed(tx: Tx, size: int, work: Callable[[], T]) -> T:
    """Return the result of `work` on `size` characters. Work of more than a few milliseconds is done in another thread
    than the event loop's: 800 KB of a workflow with 90,000 needs take 100 ms."""
    return work() if size <= MAX_INLINE_SIZE else await tx.compute(work)
