"""Decides which ends of runs cause a fire of a job that follows another job."""

from __future__ import annotations

from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobState
from timeball.domain.run.status import RAN, SUCCESSFUL, Status
from timeball.domain.schedule.schedule import On


def wants(on: On, status: Status) -> bool:
    """True if a run that ended with this status causes a fire. A run that was cancelled or skipped never does."""
    return status in RAN and (on == "finished" or (on == "succeeded") == (status in SUCCESSFUL))


def goes_on(job: Job) -> bool:
    """True if the end of another job's run may still cause a fire of this job."""
    return job.spec.follows is not None and job.state is not JobState.CANCELLED and not job.exhausted


def is_awake(job: Job) -> bool:
    """True if the job may still fire and its `endAt` has not passed. The planner sets `plan_at` to None when it has."""
    return goes_on(job) and (job.spec.ends is None or job.plan_at is not None)


def concerns(job: Job, followed: str, status: Status, at: Micros) -> bool:
    """True if the current version of a job fires at the instant `at`, because a run of the job `followed` has ended
    with this status."""
    spec, follow = job.spec, job.spec.follows
    if follow is None or not goes_on(job) or follow.job != followed or not wants(follow.on, status):
        return False
    return (spec.starts is None or at >= spec.starts) and (spec.ends is None or at <= spec.ends)
