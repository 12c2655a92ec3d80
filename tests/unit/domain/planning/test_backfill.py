"""The fires that a backfill covers, and the properties of its runs."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

import pytest
from msgspec import structs

from tests.support.builders import job
from timeball.domain import instant
from timeball.domain.dispatch.placement import Resources
from timeball.domain.errors import Invalid
from timeball.domain.instant import DAY, HOUR, MINUTE, Micros
from timeball.domain.job.job import Job, JobState
from timeball.domain.planning import backfill
from timeball.domain.planning.backfill import Backfill, BackfillProgress, BackfillState, Range
from timeball.domain.schedule.calendar import Calendar, Entry, NamedCalendar
from timeball.domain.schedule.schedule import CronSchedule, Immediate, Interval, Window

T = TypeVar("T")
MADE = instant.parse("2026-06-15T12:34:56Z")
NOW = instant.parse("2026-07-01T00:00:00Z")
NIGHTLY = CronSchedule(expression="30 2 * * *", timezone="Europe/Berlin")


def at(text: str) -> Micros:
    return instant.parse(text)


def result(steps: Iterator[T | None]) -> T:
    return next(found for found in steps if found is not None)


def survey(of: Job, since: Micros, until: Micros, now: Micros, calendars: Sequence[NamedCalendar] = ()) -> Range:
    return result(backfill.survey(of, since, until, now, calendars=calendars))


def asked(of: Job, since: Micros, until: Micros, *calendars: NamedCalendar, **fields: int) -> Backfill:
    found = survey(of, since, until, NOW, calendars=calendars)
    return Backfill(
        id="b_1",
        tenant=of.tenant,
        job_id=of.id,
        spec=of.spec,
        calendars=calendars,
        anchor=found.anchor,
        since=since,
        until=until,
        total=found.count,
        cursor=found.first,
        created_at=NOW,
        **{"parallelism": 1, **fields},
    )


def all_fires(wanted: Backfill, of: Job) -> list[Micros]:
    """Step by step, as the store asks for them."""
    fires: list[Micros] = []
    cursor = wanted.cursor
    while cursor is not None:
        step = structs.replace(wanted, cursor=cursor)
        some, cursor = backfill.next_fires(step, of, 0, result(backfill.look_ahead(step, of)))
        fires += some
    return fires


def test_it_reaches_back_before_the_job_was_made_and_follows_the_clock_changes() -> None:
    nightly = job(MADE, schedule=NIGHTLY)
    wanted = asked(nightly, at("2026-03-27T00:00:00Z"), at("2026-03-31T00:00:00Z"), parallelism=2)
    shown = [instant.render(fire) for fire in all_fires(wanted, nightly)]
    assert shown == [
        "2026-03-27T01:30:00Z",
        "2026-03-28T01:30:00Z",
        "2026-03-29T01:00:00Z",
        "2026-03-30T00:30:00Z",
    ]
    assert wanted.total == 4


@pytest.mark.parametrize("distance", [0, 1, MINUTE - 1, MINUTE, HOUR, 37 * HOUR + 5])
def test_the_grid_of_an_interval_goes_on_into_the_past(distance: Micros) -> None:
    often = job(MADE, schedule=Interval(expression="90s"))
    since = MADE - distance
    fires = all_fires(asked(often, since, since + HOUR, parallelism=7), often)
    assert len(fires) == 40
    assert all(later - earlier == 90 * instant.SECOND for earlier, later in pairwise(fires))
    assert all((fire - MADE) % (90 * instant.SECOND) == 0 and since <= fire < since + HOUR for fire in fires)


def test_the_first_instant_is_meant_and_the_last_is_not() -> None:
    hourly = job(MADE, schedule=CronSchedule(expression="0 * * * *"))
    found = survey(hourly, at("2026-05-01T00:00:00Z"), at("2026-05-01T02:00:00Z"), NOW)
    assert (found.count, found.first, found.last) == (2, at("2026-05-01T00:00:00Z"), at("2026-05-01T01:00:00Z"))


def test_a_schedule_has_no_fires_outside_its_bounds() -> None:
    bounded = job(
        MADE,
        schedule=CronSchedule(expression="0 0 * * *"),
        start_at="2026-05-10T00:00:00Z",
        end_at="2026-05-12T00:00:00Z",
    )
    found = survey(bounded, at("2026-05-01T00:00:00Z"), at("2026-06-01T00:00:00Z"), NOW)
    assert (found.count, found.first) == (3, at("2026-05-10T00:00:00Z"))


@pytest.mark.parametrize(
    ("excluded", "expected"),
    [("skip", ["01T00", "02T00", "05T00"]), ("next_open", ["01T00", "02T00", "04T12", "05T00"])],
)
@pytest.mark.parametrize("parallelism", [1, 2, 9])
def test_what_a_calendar_closes_is_not_meant(excluded: str, expected: list[str], parallelism: int) -> None:
    closed = Entry(since="2026-05-02T12:00", until="2026-05-04T12:00")
    freeze = NamedCalendar(
        tenant="default", name="freeze", calendar=Calendar(entries=[closed]), version=1, updated_at=1
    )
    daily = job(MADE, schedule=CronSchedule(expression="0 0 * * *"), calendars=["freeze"], excluded=excluded)
    since, until = at("2026-05-01T00:00:00Z"), at("2026-05-06T00:00:00Z")
    wanted = asked(daily, since, until, freeze, parallelism=parallelism)
    assert [instant.render(each)[8:13] for each in all_fires(wanted, daily)] == expected
    assert wanted.total == len(expected)


@pytest.mark.parametrize(
    ("since", "until", "why"),
    [
        (NOW - DAY, NOW - DAY, "after 'from'"),
        (NOW - DAY, NOW + 1, "is in the future"),
        (NOW - 70 * DAY, NOW, "more than 100,000 fires"),
    ],
)
def test_a_range_that_is_none_is_refused(since: Micros, until: Micros, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        survey(job(MADE, schedule=CronSchedule(expression="* * * * *")), since, until, NOW)


def test_what_fires_once_has_no_range() -> None:
    with pytest.raises(Invalid, match="fires once"):
        survey(job(MADE, schedule=Immediate()), NOW - DAY, NOW, NOW)


def test_an_edited_schedule_does_not_change_which_fires_were_meant() -> None:
    nightly = job(MADE, schedule=NIGHTLY)
    wanted = asked(nightly, at("2026-04-01T00:00:00Z"), at("2026-04-05T00:00:00Z"))
    hourly = job(MADE, schedule=Interval(expression="1h"))
    assert len(all_fires(wanted, hourly)) == wanted.total == 4


def test_the_slot_in_a_window_stays_what_it_was() -> None:
    nightly = job(MADE, schedule=Window(since="01:00", until="05:00")).with_(slot=2 * 3600)
    since, until = at("2026-04-01T00:00:00Z"), at("2026-04-04T00:00:00Z")
    wanted = structs.replace(asked(nightly, since, until), slot=nightly.slot)
    fires = all_fires(wanted, nightly.with_(slot=4 * 3600))
    assert [instant.render(each)[11:16] for each in fires] == ["02:00"] * 3


def test_a_run_of_it_is_one_level_below_and_has_no_deadline() -> None:
    nightly = job(MADE, schedule=NIGHTLY, start_deadline="1m", jitter="5m", resources=Resources(cpu=2))
    wanted = asked(nightly, at("2026-04-01T00:00:00Z"), at("2026-04-05T00:00:00Z"))
    assert wanted.cursor is not None
    made = backfill.run_of(wanted, nightly, wanted.cursor, NOW)
    assert (made.fire_time, made.eligible_at, made.due_at, made.start_by) == (wanted.cursor, NOW, None, None)
    assert made.priority == nightly.spec.level - 1
    assert made.profile is not None
    assert made.profile.startswith(f"{made.priority}|")
    lowest = job(MADE, schedule=NIGHTLY, priority=0)
    assert backfill.run_of(wanted, lowest, wanted.cursor, NOW).priority == 0
    assert backfill.run_of(wanted, nightly, wanted.cursor, NOW).id == made.id


@pytest.mark.parametrize(
    ("state", "job_state", "alive", "made", "status"),
    [
        (BackfillState.ACTIVE, JobState.ACTIVE, 1, 1, "running"),
        (BackfillState.ACTIVE, JobState.PAUSED, 1, 1, "paused"),
        (BackfillState.ACTIVE, JobState.PAUSED, 1, 4, "running"),
        (BackfillState.ACTIVE, JobState.ACTIVE, 0, 4, "completed"),
        (BackfillState.COMPLETED, JobState.PAUSED, 0, 4, "completed"),
        (BackfillState.CANCELLED, JobState.ACTIVE, 1, 2, "cancelled"),
    ],
)
def test_its_status_follows_from_what_is_left(
    state: BackfillState, job_state: JobState, alive: int, made: int, status: str
) -> None:
    nightly = job(MADE, schedule=NIGHTLY)
    wanted = asked(nightly, at("2026-04-01T00:00:00Z"), at("2026-04-05T00:00:00Z"))
    progress = BackfillProgress(structs.replace(wanted, state=state, made=made), "", job_state, alive)
    assert progress.status == status
    assert progress.done + progress.alive + progress.remaining == progress.backfill.total
