"""Forecasts: each fire is counted in its bucket, equal jobs are counted together, and the work is bounded."""

from collections import Counter
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

import pytest

from tests.support.builders import job
from timeball.domain.instant import DAY, HOUR, MINUTE, SECOND, Micros, render
from timeball.domain.job.job import Job
from timeball.domain.planning import forecast, upcoming_fires
from timeball.domain.planning.forecast import forecast_fires, grid
from timeball.domain.schedule.closed_times import OPEN, Closures
from timeball.domain.schedule.schedule import CronSchedule, Date, Interval

NOW = 1_800_000_000 * SECOND + 123


def jobs() -> list[Job]:
    made = [
        *(job(NOW, schedule=CronSchedule("0 2 * * *", "Europe/Berlin")) for _ in range(5)),
        *(job(NOW, schedule=CronSchedule("H H * * *"), name=f"n{number}") for number in range(4)),
        *(job(NOW, schedule=Interval("17m")) for _ in range(3)),
        job(NOW, schedule=CronSchedule("*/5 * * * *"), max_runs=7),
        job(NOW, schedule=CronSchedule("*/5 * * * *"), end_at=render(NOW + DAY)),
        job(NOW, schedule=Date(render(NOW + 2 * DAY))),
    ]
    return [each.with_(anchor=NOW - at * SECOND) if at < 11 else each for at, each in enumerate(made)]


def expected(each: Job, until: Micros, closures: Mapping[str, Closures]) -> list[Micros]:
    coming = upcoming_fires.coming(each, NOW, closures.get(each.id, OPEN))
    return list(takewhile(lambda at: at < until, coming))


def test_every_fire_is_in_its_bucket() -> None:
    everything = jobs()
    buckets = grid(NOW, NOW + 3 * DAY, HOUR)
    assert (buckets[0].since % HOUR, buckets[0].since <= NOW) == (0, True)
    means = {each.id: float(at) for at, each in enumerate(everything) if at % 2}
    found = forecast_fires(everything, {}, means, buckets, NOW)
    assert (found.jobs, found.left_out, found.estimated) == (len(everything), 0, 0)
    end = buckets[-1].until
    fires = Counter[int]()
    seconds = Counter[int]()
    for each in everything:
        for at in expected(each, end, {}):
            fires[at // HOUR] += 1
            seconds[at // HOUR] += means.get(each.id, 0)  # type: ignore[assignment]
    assert {bucket.since // HOUR: bucket.fires for bucket in found.buckets if bucket.fires} == dict(fires)
    assert {bucket.since // HOUR: bucket.run_seconds for bucket in found.buckets if bucket.run_seconds} == {
        hour: pytest.approx(total) for hour, total in seconds.items() if total
    }
    assert found.unmeasured == sum(each.id not in means for each in everything)
    assert found.peak is not None
    assert found.peak.run_seconds == max(bucket.run_seconds for bucket in found.buckets)


def test_jobs_that_are_alike_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Job] = []
    real = upcoming_fires.coming

    def coming(each: Job, after: Micros, closures: Closures) -> Any:
        asked.append(each)
        return real(each, after, closures)

    monkeypatch.setattr(upcoming_fires, "coming", coming)
    alike = [job(NOW, schedule=CronSchedule("0 0 * * *")) for _ in range(2_000)]
    found = forecast_fires(alike, {}, {}, grid(NOW, NOW + 7 * DAY, HOUR), NOW)
    assert sum(bucket.fires for bucket in found.buckets) == 2_000 * 7
    assert len(asked) == 1


def test_what_is_too_much_is_estimated_or_left_out_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "MAX_OF_RULE", 1_000)
    often = job(NOW, schedule=CronSchedule("* * * * * *"))
    found = forecast_fires([often], {}, {}, grid(NOW, NOW + 2 * HOUR, 10 * MINUTE), NOW)
    assert (found.jobs, found.estimated, found.left_out) == (1, 1, 0)
    assert all(bucket.fires == pytest.approx(600, abs=1) for bucket in found.buckets[1:-1])
    monkeypatch.setattr(forecast, "MAX_INSTANTS", 1_500)
    others = [job(NOW, schedule=CronSchedule(f"{second} * * * * *")) for second in range(5)]
    found = forecast_fires([often, *others], {}, {}, grid(NOW, NOW + 10 * HOUR, HOUR), NOW)
    assert found.left_out == 5 - 1
    assert found.jobs == 2


def test_nothing_is_no_peak() -> None:
    assert forecast_fires([], {}, {}, grid(NOW, NOW + DAY, HOUR), NOW).peak is None
    assert forecast_fires(jobs(), {}, {}, [], NOW).buckets == []


def test_the_busiest_buckets_name_the_jobs_that_need_the_most() -> None:
    everything = jobs()
    means = {each.id: float(at) for at, each in enumerate(everything) if at % 2}
    found = forecast_fires(everything, {}, means, grid(NOW, NOW + 3 * DAY, 6 * HOUR), NOW)
    ranked = sorted(found.buckets, key=lambda bucket: (-bucket.run_seconds, -bucket.fires, bucket.since))
    assert [busy.bucket for busy in found.busiest] == [bucket for bucket in ranked if bucket.fires][
        : forecast.MAX_BUSIEST
    ]
    for busy in found.busiest:
        fires = {
            each.id: sum(at >= busy.bucket.since for at in expected(each, busy.bucket.until, {})) for each in everything
        }
        firing = {job_id: count for job_id, count in fires.items() if count}
        assert busy.bucket.jobs == len(firing)
        needs = sorted(((means.get(job_id, 0.0) * count, count) for job_id, count in firing.items()), reverse=True)
        assert [(each.run_seconds or 0.0, each.fires) for each in busy.causes] == needs[: forecast.MAX_CAUSES]
        assert all((each.run_seconds is None) == (each.job.id not in means) for each in busy.causes)


def test_the_largest_job_is_named_although_many_small_ones_fire_together() -> None:
    """Jobs with the same fires are one rule: rules rank by their largest job, so that no sum hides a large job."""
    small = [job(NOW, schedule=CronSchedule("0 0 * * *")) for _ in range(500)]
    rules = [job(NOW, schedule=CronSchedule(f"{minute} 0 * * *")) for minute in range(1, 20)]
    large = job(NOW, schedule=CronSchedule("30 0 * * *"))
    means = {each.id: 1.0 for each in [*small, *rules]} | {large.id: 60.0}
    found = forecast_fires([*small, *rules, large], {}, means, grid(NOW, NOW + DAY, HOUR), NOW)
    assert [busy.bucket.jobs for busy in found.busiest] == [520]
    assert found.busiest[0].causes[0].job == large
    assert len(found.busiest[0].causes) == forecast.MAX_CAUSES
