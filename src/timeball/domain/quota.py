"""Quotas of a tenant: the jobs that may fire, the runs that begin in a day, and the bytes that are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from timeball.domain.errors import DailyQuotaExceeded, QuotaExceeded
from timeball.domain.instant import DAY, SECOND, Micros
from timeball.domain.job.job import Job, JobSpec, JobState, OffloadedSpec, encode_spec
from timeball.domain.job.large_values import size_of_parameters
from timeball.domain.run import follow
from timeball.domain.tenant import QuotaLimits

QUOTA_OF_DAY: Final = "quota: the tenant may begin no more runs this day"
"""The reason in the ledger for fires that were skipped because of the daily quota."""
NOTE_OF_BYTES: Final = (
    "[timeball] output or the result of this attempt is missing: the quota of stored bytes of the tenant is used up\n"
)
"""Stored once in the output of an attempt of which something was not stored."""


class KnownQuotas:
    """The quotas of the tenants that have any. A server keeps them in memory, so they may be older than the store."""

    def __init__(self) -> None:
        self.by_tenant: Mapping[str, QuotaLimits] = {}

    def of_bytes(self) -> dict[str, int]:
        """Return the quotas of stored bytes, by tenant."""
        return {name: each.stored_bytes for name, each in self.by_tenant.items() if each.stored_bytes is not None}


def may_fire(job: Job) -> bool:
    """True if the job counts for the quota of jobs: it is not cancelled, and has a next fire, or follows another job
    and has not used up its `maxRuns`. A paused job counts, because it may fire when it is resumed."""
    return job.state is not JobState.CANCELLED and (job.next_fire_at is not None or follow.goes_on(job))


class RunsOfDays(Struct):
    """How many runs of a tenant begin on each day, from today on. A run that waits for a later day counts there."""

    limit: int
    today: int
    """Days since 1970-01-01, in UTC."""
    days: dict[int, int]

    @property
    def begun_today(self) -> int:
        return self.days.get(self.today, 0)

    def day_of(self, at: Micros) -> int:
        return max(self.today, at // DAY)

    def has_room(self, at: Micros) -> bool:
        """True if the quota allows one more run on the day of this instant."""
        return self.left(at) > 0

    def left(self, at: Micros) -> int:
        return max(0, self.limit - self.days.get(self.day_of(at), 0))

    def take(self, at: Micros) -> None:
        day = self.day_of(at)
        self.days[day] = self.days.get(day, 0) + 1

    def first_room(self, at: Micros) -> Micros | None:
        """Return the first instant, from `at` on, at which one more run may begin; None if the quota is 0."""
        if not self.limit:
            return None
        day = self.day_of(at)
        if self.has_room(at):
            return at
        while self.days.get(day, 0) >= self.limit:
            day += 1
        return day * DAY


def runs_of_days(limit: int, now: Micros, stored: Mapping[int, int]) -> RunsOfDays:
    """Return the counts of a tenant, from the stored counts by day, without past days."""
    today = now // DAY
    return RunsOfDays(limit, today, {day: count for day, count in stored.items() if day >= today})


def too_many_jobs(limit: int) -> QuotaExceeded:
    return QuotaExceeded(
        f"the tenant may have {limit:,} jobs that may still fire, and has them; cancel some, or ask an operator of the"
        " installation for a higher quota"
    )


def size_of_spec(spec: JobSpec) -> int:
    """Return the number of bytes that are stored for a spec, with its parameters."""
    return len(encode_spec(spec)) + sum(map(size_of_parameters, parameters_of(spec)))


def growth(old: JobSpec, new: JobSpec) -> int:
    """Return the number of bytes that are stored in addition when the spec of a job changes: those of the new spec,
    because the old one is kept as a version, and of parameters that only the new spec has."""
    added = parameters_of(new) - parameters_of(old)
    return len(encode_spec(new)) + sum(map(size_of_parameters, added))


def parameters_of(spec: JobSpec) -> frozenset[str]:
    """Return the key of the object that has the parameters of a spec, if they are in object storage."""
    return frozenset({spec.parameters_at} if isinstance(spec, OffloadedSpec) else ())


def too_many_bytes(limit: int) -> QuotaExceeded:
    return QuotaExceeded(
        f"the tenant may have {limit:,} bytes stored (storedBytes), and this would be more; cancel jobs, wait until old"
        " runs are deleted, or ask an operator of the installation for a higher quota"
    )


def too_many_runs(limit: int, now: Micros) -> DailyQuotaExceeded:
    return DailyQuotaExceeded(
        f"the tenant may begin {limit:,} runs in a day (runsPerDay), and has done so; more may begin from 00:00 UTC on",
        (DAY - now % DAY) / SECOND,
    )
