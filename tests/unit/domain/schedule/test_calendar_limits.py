"""I28: the work that calendars cause is counted, and each search, plan and slice does a bounded amount of it."""

from itertools import takewhile
from typing import Any

import msgspec
import pytest

from tests.support.builders import job
from timeball.domain import instant
from timeball.domain.instant import DAY, MAX, MINUTE, SECOND, Micros
from timeball.domain.job.job import Job
from timeball.domain.planning import backfill, planning
from timeball.domain.schedule import closed_times
from timeball.domain.schedule.calendar import Calendar, NamedCalendar
from timeball.domain.schedule.closed_times import Closures
from timeball.domain.schedule.schedule import CronSchedule

NOW = 1_800_000_000 * SECOND
ABSENCE = 3 * DAY
QUESTION = 12_000
"""Units of work, about 3 microseconds each, that one question may cost with ten calendars of a hundred windows."""


def named(number: int, entries: list[dict[str, Any]]) -> NamedCalendar:
    calendar = msgspec.convert({"timezone": "Europe/Berlin", "entries": entries}, Calendar)
    return NamedCalendar(tenant="t", name=f"c{number}", calendar=calendar, version=1, updated_at=0)


def largest(mark: str) -> list[NamedCalendar]:
    """Ten calendars of a hundred windows; nothing is known of them yet if the mark is a new one."""
    return [
        named(
            number,
            [
                {"cron": f"{at % 60} {at * 7 % 60} */2 * * *", "for": f"{61 + number}s", "reason": mark}
                for at in range(100)
            ],
        )
        for number in range(10)
    ]


def overdue(expression: str, **rest: Any) -> Job:
    schedule = CronSchedule(expression=expression)
    waiting = job(NOW - ABSENCE, schedule=schedule, calendars=["c"], **rest)
    return waiting.with_(next_fire_at=next(planning.fires(waiting, NOW - ABSENCE)))


def test_a_question_costs_a_bounded_amount_of_work() -> None:
    asked = Closures(largest("question"))
    before = 0
    for at in range(NOW, NOW + 3 * DAY, 5 * 3_600 * SECOND):
        asked.at(at)
        assert asked.work - before <= QUESTION
        before = asked.work


def test_what_is_known_costs_nothing_again() -> None:
    first, again = Closures(largest("known")), Closures(largest("known"))
    for at in range(NOW, NOW + DAY, MINUTE):
        first.at(at)
        again.at(at)
    assert again.work < first.work / 4


def test_windows_that_meet_are_one() -> None:
    """A window for each second of the year costs what one window a day costs."""
    dense, daily = (
        Closures([named(0, [{"cron": "* * 1-22 * * *", "for": "1m"}])]),
        Closures([named(0, [{"cron": "0 1 * * *", "for": "22h"}])]),
    )
    for asked in (dense, daily):
        for at in range(NOW, NOW + 362 * DAY, 3_600 * SECOND):
            asked.at(at)
    assert dense.work <= daily.work * 1.1


@pytest.mark.parametrize(
    ("expression", "catch_up", "jitter"),
    [("* * * * *", "last", None), ("* * * * *", "none", "20s"), ("0 */2 * * *", "last", "20s")],
)
def test_a_long_absence_is_worked_off_in_plans_of_bounded_work(
    expression: str, catch_up: str, jitter: str | None
) -> None:
    """I20: it ends, and the newest open instant alone becomes a run."""
    calendars = largest(f"absence {expression} {catch_up} {jitter}")
    waiting = overdue(expression, catch_up=catch_up, jitter=jitter, excluded="next_open")
    first = waiting
    plans, runs = 0, list[Micros]()
    while waiting.next_fire_at is not None and waiting.next_fire_at <= NOW:
        asked = Closures(calendars)
        plan = planning.plan(waiting, NOW, closures=asked)
        assert asked.work <= 2 * QUESTION
        assert plan.instants <= planning.MAX_CLOSED_INSTANTS
        runs += [step.fire_time for step in plan.steps if isinstance(step, planning.PlannedFire)]
        waiting = waiting.with_(
            next_fire_at=plan.next_fire_at, deferred_fire=plan.deferred_fire, fired=waiting.fired + plan.runs
        )
        plans += 1
        assert plans < 500
    late = [at for at in runs if at < NOW - MINUTE]
    due = [at for at in seek(first, calendars) if at < NOW - MINUTE]
    assert late == {"none": [], "last": [] if max(runs, default=0) > due[-1] else [due[-1]]}[catch_up]


def seek(waiting: Job, calendars: list[NamedCalendar]) -> list[Micros]:
    ahead = planning.seek_open_fires(waiting, NOW - ABSENCE, Closures(calendars))
    return [at for at in takewhile(lambda at: at is None or at < NOW, ahead) if at is not None]


def test_a_survey_is_made_in_slices() -> None:
    calendars = largest("survey")
    slices = 0
    often = overdue("* * * * *")
    for found in backfill.survey(often, NOW - 2 * DAY, NOW, NOW, calendars=calendars):
        slices += 1
        if found is not None:
            assert found.count == sum(Closures(calendars).at(at) is None for at in range(NOW - 2 * DAY, NOW, MINUTE))
    assert slices > 10


def test_a_calendar_whose_windows_never_end_has_an_end_that_is_not_sure() -> None:
    """Stored before there was a check: it is closed, and what asks for the end gets an answer in bounded time."""
    always = Closures([named(0, [{"cron": f"{at} * * * *", "for": "61s", "reason": "always"} for at in range(60)])])
    closure = always.at(NOW)
    assert closure is not None
    assert not closure.sure
    assert always.work < QUESTION
    assert (further := always.at(closure.end)) is not None
    assert further.end > closure.end
    assert list(filter(None, always.seek_opening(NOW))) == []
    assert always.work <= closed_times.OPENING_WORK + 2 * QUESTION


def test_no_closure_ends_after_the_last_instant() -> None:
    """I30: a window that lasts beyond the year 9999."""
    last = Closures([named(0, [{"cron": "0 0 20 12 *", "for": "366d"}])])
    closure = last.at(MAX - 3_600 * SECOND)
    assert closure is not None
    assert closure.end == MAX


@pytest.mark.parametrize(("length", "days"), [("2d", 2), ("10d", 10), ("25d", 25)])
def test_a_long_window_is_closed_on_pages_that_begin_after_it(length: str, days: int) -> None:
    """Pages are a third of a day here: the long window began on a page that is not looked at."""
    entries = [{"cron": "0 0 1 * *", "for": length}, {"cron": "*/2 * * * *", "for": "1m"}]
    asked = Closures([named(0, entries)])
    begin = instant.parse("2027-01-31T23:00:00Z")
    for at in range(begin, begin + days * DAY, 7 * 3_600 * SECOND):
        closure = asked.at(at)
        assert closure is not None
        assert closure.entry == f"{length} from '0 0 1 * *' on"
        assert closure.end == begin + days * DAY + MINUTE
