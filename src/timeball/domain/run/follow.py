"""Jobs that follow other jobs: which ends of runs concern them."""

from __future__ import annotations

from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobState
from timeball.domain.run.status import RAN, SUCCESSFUL, Status
from timeball.domain.schedule.schedule import On


def wants(on: On, status: Status) -> bool:
    """Whether an end counts. A run that was cancelled or skipped never does: nothing is to come of it."""
    return status in RAN and (on == "finished" or (on == "succeeded") == (status in SUCCESSFUL))


def goes_on(job: Job) -> bool:
    """Whether ends of another job's runs may still come to something here."""
    return job.spec.follows is not None and job.state is not JobState.CANCELLED and not job.exhausted


def is_awake(job: Job) -> bool:
    """Whether it goes on, and its own end has not come: until then the planner is to look at it."""
    return goes_on(job) and (job.spec.ends is None or job.plan_at is not None)


def concerns(job: Job, followed: str, status: Status, at: Micros) -> bool:
    """Whether a job, as it is now, fires at an instant because a run of another has ended."""
    spec, follow = job.spec, job.spec.follows
    if follow is None or not goes_on(job) or follow.job != followed or not wants(follow.on, status):
        return False
    return (spec.starts is None or at >= spec.starts) and (spec.ends is None or at <= spec.ends)
