"""Which jobs get lanes in the timeline, and how their runs are shown."""

from typing import Any

import pytest
from msgspec.structs import replace

from timeball.domain.instant import HOUR, MINUTE
from timeball.domain.job.job import JobState
from timeball.domain.overview import lanes
from timeball.domain.overview.lanes import LaneJob, LaneRun, LaneVerdict
from timeball.domain.run.ledger import Origin, Verdict, verdict
from timeball.domain.run.status import TERMINAL, Status

NOW = 1_800_000_000_000_000


def job(name: str, **fields: Any) -> LaneJob:
    usual = LaneJob(id=f"j_{name}", name=name, state=JobState.ACTIVE, next_fire_at=None, last_at=None, size=1)
    return replace(usual, **fields)


def run(fire_time: int, **fields: Any) -> LaneRun:
    usual = LaneRun(
        id=f"r_{fire_time}",
        job_id="j_a",
        fire_time=fire_time,
        fire_until=fire_time,
        fires=1,
        origin=Origin.SCHEDULE,
        status=Status.SUCCEEDED,
        verdict=Verdict.ON_TIME,
        due=fire_time,
        started_at=fire_time,
        finished_at=fire_time,
    )
    return replace(usual, **fields)


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("origin", list(Origin))
@pytest.mark.parametrize("late", [0, HOUR])
def test_every_run_is_shown_by_the_verdict_on_it(status: Status, origin: Origin, late: int) -> None:
    judged = verdict(status, origin, 0, late)
    found = lanes.shown(status, judged)
    if status not in TERMINAL:
        assert found is (LaneVerdict.RUNNING if status is Status.RUNNING else LaneVerdict.WAITING)
    elif status in (Status.FAILED, Status.DEAD):
        assert found is LaneVerdict.FAILED
    elif judged is Verdict.CAUGHT_UP:
        assert found is LaneVerdict.LATE
    else:
        assert found.value == judged.value


def test_a_missed_fire_is_not_a_skipped_one() -> None:
    assert lanes.shown(Status.SKIPPED, Verdict.MISSED) is LaneVerdict.MISSED
    assert lanes.shown(Status.SKIPPED, Verdict.SKIPPED) is LaneVerdict.SKIPPED


def test_jobs_with_fires_in_the_range_are_active_the_nearest_first() -> None:
    jobs = [
        job("later", next_fire_at=NOW + 20 * MINUTE),
        job("ran", last_at=NOW - 5 * MINUTE, next_fire_at=NOW + HOUR),
        job("soon", next_fire_at=NOW + MINUTE),
        job("running", last_at=NOW),
        job("beyond", next_fire_at=NOW + 2 * HOUR),
        job("paused", next_fire_at=NOW + MINUTE, state=JobState.PAUSED),
        job("paused but ran", last_at=NOW - 10 * MINUTE, state=JobState.PAUSED),
        job("idle"),
    ]
    found = [each.name for each in lanes.active(jobs, NOW, NOW + HOUR)]
    assert found == ["running", "soon", "ran", "paused but ran", "later"]


def test_a_job_is_in_the_lane_of_each_of_its_tags() -> None:
    jobs = [job("a", tags=("x", "y")), job("b", tags=("x",)), job("c")]
    found = {tag: [each.name for each in own] for tag, own in lanes.tags_of(jobs).items()}
    assert found == {"x": ["a", "b"], "y": ["a"], lanes.UNTAGGED: ["c"]}


def test_runs_are_counted_in_the_part_of_their_fire() -> None:
    edges = lanes.edges(NOW, NOW + 10, 3)
    assert edges == [NOW, NOW + 3, NOW + 6, NOW + 10]
    runs = [
        run(NOW - 5, fires=4, status=Status.SKIPPED, verdict=Verdict.MISSED),
        run(NOW),
        run(NOW + 5, status=Status.DEAD),
        run(NOW + 9, finished_at=None, status=Status.RUNNING, verdict=Verdict.OPEN),
        run(NOW + 20),
    ]
    assert [each.counts for each in lanes.counted(runs, edges)] == [
        {LaneVerdict.MISSED: 4, LaneVerdict.ON_TIME: 1},
        {LaneVerdict.FAILED: 1},
        {LaneVerdict.RUNNING: 1, LaneVerdict.ON_TIME: 1},
    ]


@pytest.mark.parametrize(
    ("state", "goes_on", "status"),
    [
        (JobState.ACTIVE, True, "scheduled"),
        (JobState.ACTIVE, False, "completed"),
        (JobState.PAUSED, True, "paused"),
        (JobState.CANCELLED, False, "cancelled"),
    ],
)
def test_the_status_of_a_job(state: JobState, goes_on: bool, status: str) -> None:
    assert job("a", state=state, goes_on=goes_on).status == status


def test_a_known_fire_counts_if_it_is_newer() -> None:
    known = job("a", last_at=NOW)
    assert lanes.with_fire(known, NOW - 1) is known
    assert lanes.with_fire(known, None) is known
    assert lanes.with_fire(known, NOW + 1).last_at == NOW + 1
    assert lanes.with_fire(job("b"), NOW).last_at == NOW
