"""References of jobs to calendars. A transaction that plans, submits or amends jobs with calendars locks these against
changes, before it locks any job. A transaction that changes a calendar therefore sees all runs that were created with
the old version."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from timeball.domain.errors import Invalid
from timeball.domain.job.job import Job, JobState
from timeball.domain.planning.planning import JobPlan
from timeball.ports.store.jobs import Amendment, NoCalendar, Submission, Submitted
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.rows.jobs import calendar_rows
from timeball.stores.sql.schema.jobs import JOB_CALENDARS
from timeball.stores.sql.statements import query

SHARE_CALENDARS = query("share_calendars")
DROP_CALENDARS_OF_JOBS = query("drop_calendars_of_jobs")

CalendarKey = tuple[str, str]
"""Tenant and name."""


async def share(tx: Tx, keys: Iterable[CalendarKey]) -> dict[CalendarKey, int]:
    """Return the versions of those calendars that exist, and lock them against changes."""
    if wanted := sorted(set(keys)):
        return {(tenant, name): version for tenant, name, version in await tx.fetch(SHARE_CALENDARS, b=wanted)}
    return {}


async def outdated(tx: Tx, plans: Sequence[JobPlan]) -> set[str]:
    """Return the ids of jobs whose plans were made with calendars that have changed since."""
    made_with = [(plan.job.id, plan.calendars) for plan in plans if plan.calendars]
    if not made_with:
        return set()
    current = await share(tx, ((tenant, name) for _, used in made_with for tenant, name, _ in used))
    return {
        job_id
        for job_id, used in made_with
        if any(current.get((tenant, name), 0) != version for tenant, name, version in used)
    }


async def missing(tx: Tx, submissions: Sequence[Submission]) -> dict[int, Submitted]:
    """Return an error for each submission that refers to a calendar which does not exist, by position."""
    bound = [(at, each.job) for at, each in enumerate(submissions) if each.job.spec.calendars]
    if not bound:
        return {}
    known = await share(tx, (key for _, job in bound for key in _keys(job)))
    return {at: NoCalendar(name) for at, job in bound for tenant, name in _keys(job) if (tenant, name) not in known}


async def check(tx: Tx, amendments: Sequence[Amendment]) -> None:
    """Raise `Invalid` if an amended job refers to a calendar that does not exist."""
    changed = [
        each.job.with_(spec=each.spec)
        for each in amendments
        if each.spec.calendars and each.spec != each.job.spec and each.state is not JobState.CANCELLED
    ]
    if not changed:
        return
    known = await share(tx, (key for job in changed for key in _keys(job)))
    for job in changed:
        for at, (tenant, name) in enumerate(_keys(job)):
            if (tenant, name) not in known:
                raise Invalid(f"there is no calendar {name!r}", f"/calendars/{at}")


async def bind(tx: Tx, jobs: Iterable[Job]) -> None:
    """Insert the references of new jobs to their calendars."""
    if rows := [row for job in jobs if job.spec.calendars for row in calendar_rows(job)]:
        await tx.insert(JOB_CALENDARS, rows)


async def rebind(tx: Tx, jobs: Sequence[Job]) -> None:
    if jobs:
        await tx.execute(DROP_CALENDARS_OF_JOBS, b=[job.id for job in jobs])
        await bind(tx, jobs)


def _keys(job: Job) -> list[CalendarKey]:
    return [(job.tenant, name) for name in job.spec.calendars]
