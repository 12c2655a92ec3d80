"""Forecasts the fires of many jobs in buckets of time, with bounded work.

Jobs with the same fires are counted together, as one *rule*: a thousand jobs at midnight are one rule. A rule with more
than `MAX_OF_RULE` fires is counted up to this number and extrapolated at the same rate. After `MAX_INSTANTS` fires in
all, the remaining rules are not counted. The forecast reports how many jobs were extrapolated (`estimated`) and how
many were not counted (`left_out`).

For the buckets with the most work, the forecast names the jobs that need the most of it. While rules are counted, each
bucket keeps the few rules whose largest job needs the most: these contain the largest jobs of the bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappush, heapreplace, nlargest
from itertools import islice
from typing import Final

from msgspec import Struct

from timeball.domain.duration import parse
from timeball.domain.instant import SECOND, Micros
from timeball.domain.job.job import Job
from timeball.domain.planning import upcoming_fires
from timeball.domain.schedule.closed_times import OPEN, Closures
from timeball.domain.schedule.schedule import CronSchedule, Interval, Window

MAX_OF_RULE: Final = 100_000
MAX_INSTANTS: Final = 2_000_000
MAX_BUSIEST: Final = 12
"""Maximum number of buckets whose jobs the forecast names."""
MAX_CAUSES: Final = 5
"""Maximum number of jobs that the forecast names for a bucket."""


class ForecastBucket(Struct):
    """One range of time with its expected fires."""

    since: Micros
    until: Micros
    fires: int = 0
    run_seconds: float = 0.0
    """Expected slot seconds: the sum of slots times run duration, for jobs whose duration is known."""
    jobs: int = 0
    """Number of jobs that fire in the bucket."""


class LoadCause(Struct, frozen=True):
    """A job that fires in a bucket."""

    job: Job
    fires: int
    run_seconds: float | None
    """None if the duration of its runs is not known."""


class BusyBucket(Struct, frozen=True):
    bucket: ForecastBucket
    causes: list[LoadCause]
    """The jobs that need the most slot seconds in the bucket, at most `MAX_CAUSES`."""


class Forecast(Struct):
    buckets: list[ForecastBucket]
    busiest: list[BusyBucket] = []
    """The buckets with the most slot seconds, at most `MAX_BUSIEST`. If the seconds are equal, the number of fires
    decides."""
    jobs: int = 0
    """Number of jobs that were counted."""
    estimated: int = 0
    """Number of counted jobs with more than `MAX_OF_RULE` fires. Their further fires are estimated."""
    left_out: int = 0
    """Number of jobs that were not counted."""
    unmeasured: int = 0
    """Number of counted jobs that fire but whose run duration is not known."""

    @property
    def peak(self) -> ForecastBucket | None:
        """The bucket with the most slot seconds; None if no bucket has a fire."""
        return self.busiest[0].bucket if self.busiest else None


class _Rule(Struct):
    """Jobs with the same fires."""

    job: Job
    closures: Closures
    jobs: list[Job]


_Share = tuple[float, int, int, _Rule]
"""The need of the largest job of a rule in a bucket: slot seconds, number of fires, negative number of the rule, rule.
"""


def forecast_fires(
    jobs: Iterable[Job],
    closures: Mapping[str, Closures],
    means: Mapping[str, float],
    grid: Sequence[ForecastBucket],
    now: Micros,
) -> Forecast:
    """Count the fires of jobs after now in a grid of buckets of equal length. `means` has the mean run duration in
    seconds, by job id, for jobs whose duration is known."""
    found = Forecast(list(grid))
    if not grid:
        return found
    budget = MAX_INSTANTS
    largest: list[list[_Share]] = [[] for _ in grid]
    for number, rule in enumerate(_rules(jobs, closures)):
        if budget <= 0:
            found.left_out += len(rule.jobs)
            continue
        counts, looked_at, estimated = _counted(rule, found.buckets, max(now, grid[0].since - 1))
        budget -= looked_at
        found.jobs += len(rule.jobs)
        found.estimated += len(rule.jobs) if estimated else 0
        if counts:
            found.unmeasured += sum(job.id not in means for job in rule.jobs)
        needs = [means.get(job.id, 0.0) * job.spec.need.slots for job in rule.jobs]
        seconds, longest = sum(needs), max(needs)
        for at, fires in counts.items():
            bucket = found.buckets[at]
            bucket.fires += fires * len(rule.jobs)
            bucket.run_seconds += fires * seconds
            bucket.jobs += len(rule.jobs)
            _keep(largest[at], (fires * longest, fires, -number, rule))
    found.busiest = _busiest(found.buckets, largest, means)
    return found


def _keep(shares: list[_Share], share: _Share) -> None:
    if len(shares) < MAX_CAUSES:
        heappush(shares, share)
    elif share[:3] > shares[0][:3]:
        heapreplace(shares, share)


def _busiest(
    buckets: Sequence[ForecastBucket], largest: Sequence[Sequence[_Share]], means: Mapping[str, float]
) -> list[BusyBucket]:
    ranked = nlargest(
        MAX_BUSIEST,
        (at for at, bucket in enumerate(buckets) if bucket.fires),
        key=lambda at: (buckets[at].run_seconds, buckets[at].fires, -at),
    )
    return [BusyBucket(buckets[at], _causes(largest[at], means)) for at in ranked]


def _causes(shares: Sequence[_Share], means: Mapping[str, float]) -> list[LoadCause]:
    def cause(job: Job, fires: int) -> LoadCause:
        mean = means.get(job.id)
        return LoadCause(job, fires, None if mean is None else fires * mean * job.spec.need.slots)

    ordered = sorted(shares, key=lambda share: share[:3], reverse=True)
    found = [
        cause(job, fires)
        for _, fires, _, rule in ordered
        for job in nlargest(MAX_CAUSES, rule.jobs, key=lambda job: means.get(job.id, 0.0) * job.spec.need.slots)
    ]
    return nlargest(MAX_CAUSES, found, key=lambda each: (each.run_seconds or 0.0, each.fires))


def grid(since: Micros, until: Micros, width: Micros) -> list[ForecastBucket]:
    """Return buckets of a width that cover a range. The first one begins at a multiple of the width."""
    first = since // width * width
    return [ForecastBucket(begin, begin + width) for begin in range(first, until, width)]


def _rules(jobs: Iterable[Job], closures: Mapping[str, Closures]) -> list[_Rule]:
    rules: dict[object, _Rule] = {}
    for job in jobs:
        rule = rules.get(key := _key(job))
        if rule is None:
            rules[key] = _Rule(job, closures.get(job.id, OPEN), [job])
        else:
            rule.jobs.append(job)
    return list(rules.values())


def _key(job: Job) -> object:
    """Return a key that is equal for jobs with the same fires. A job whose fires depend on its own state or count has a
    key of its own."""
    spec, when = job.spec, job.spec.schedule
    if spec.max_runs is not None or job.deferred_fire is not None or spec.one_shot:
        return job.id
    bounds = (spec.starts, spec.ends, tuple(spec.calendars), spec.excluded)
    match when:
        case Window():
            fixed = when.at(job.spread)
            return fixed.expression, fixed.timezone, fixed.dst_gap, fixed.dst_overlap, bounds
        case CronSchedule():
            spread = job.spread if "H" in when.expression.upper() else ""
            return when.expression, when.timezone, when.dst_gap, when.dst_overlap, spread, bounds
        case Interval():
            step = parse(when.expression)
            return step, job.anchor % step, bounds
        case _:
            return job.id


def _counted(rule: _Rule, buckets: Sequence[ForecastBucket], after: Micros) -> tuple[dict[int, int], int, bool]:
    """Return the number of fires of one job of a rule by bucket, the number of fires that were counted, and True if
    further fires were estimated."""
    first, width, end = buckets[0].since, buckets[0].until - buckets[0].since, buckets[-1].until
    counts: dict[int, int] = {}
    looked_at = 0
    last = after
    for at in islice(_ahead(rule, after), MAX_OF_RULE):
        if at >= end:
            break
        looked_at += 1
        place = (at - first) // width
        counts[place] = counts.get(place, 0) + 1
        last = at
    if looked_at < MAX_OF_RULE or last == after:
        return counts, looked_at, False
    rate = looked_at / (last - after)
    reached = (last - first) // width
    for place in range(reached, len(buckets)):
        since = max(buckets[place].since, last)
        counts[place] = counts.get(place, 0) + round((buckets[place].until - since) * rate)
    return counts, looked_at, True


def _ahead(rule: _Rule, after: Micros) -> Iterator[Micros]:
    return upcoming_fires.coming(rule.job, after, rule.closures)


def capacity(slots: int, bucket: ForecastBucket) -> float:
    """Return the slot seconds that are available in a bucket."""
    return slots * (bucket.until - bucket.since) / SECOND
