"""Which ends of runs count for a job that follows another, and what is planned for them."""

import msgspec
import pytest

from tests.support.builders import job
from timeball.domain.errors import InvalidSchedule
from timeball.domain.instant import HOUR, MINUTE, SECOND, Micros, render
from timeball.domain.job.job import Job, JobState
from timeball.domain.planning import planning
from timeball.domain.planning.planning import PlannedFire, Span
from timeball.domain.run import follow
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.status import Status
from timeball.domain.schedule.calendar import Calendar, NamedCalendar
from timeball.domain.schedule.closed_times import Closures
from timeball.domain.schedule.schedule import Follow, On, is_one_shot
from timeball.domain.text.schedule_text import describe

NOW: Micros = 1_800_000_000 * SECOND


def heard(*instants: Micros, **fields: object) -> Job:
    """A job that has heard of ends at these instants."""
    made = job(NOW - HOUR, schedule=Follow("j_1"), **fields)
    return made.with_(next_fire_at=min(instants, default=None), upstream_events=tuple(sorted(instants)))


@pytest.mark.parametrize(
    ("on", "wanted"),
    [
        ("succeeded", {Status.SUCCEEDED}),
        ("failed", {Status.FAILED, Status.DEAD}),
        ("finished", {Status.SUCCEEDED, Status.FAILED, Status.DEAD}),
    ],
)
def test_each_kind_of_end(on: On, wanted: set[Status]) -> None:
    assert {status for status in Status if follow.wants(on, status)} == wanted


def test_what_concerns_it() -> None:
    bounded = heard(start_at=render(NOW), end_at=render(NOW + HOUR))
    assert [follow.concerns(bounded, "j_1", Status.SUCCEEDED, NOW + at) for at in (-1, 0, HOUR, HOUR + 1)] == [
        False,
        True,
        True,
        False,
    ]
    assert not follow.concerns(bounded, "j_2", Status.SUCCEEDED, NOW)
    assert not follow.concerns(bounded, "j_1", Status.DEAD, NOW)
    assert not follow.concerns(bounded.with_(state=JobState.CANCELLED), "j_1", Status.SUCCEEDED, NOW)
    assert follow.concerns(bounded.with_(state=JobState.PAUSED), "j_1", Status.SUCCEEDED, NOW)
    assert not follow.concerns(heard(max_runs=2).with_(fired=2), "j_1", Status.SUCCEEDED, NOW)


def test_it_is_born_without_a_fire() -> None:
    made, fire = planning.begin("j_2", "default", heard().spec, NOW)
    assert (fire, made.next_fire_at, made.plan_at) == (None, None, None)
    made, _ = planning.begin("j_2", "default", heard(end_at=render(NOW + HOUR)).spec, NOW)
    assert made.plan_at == NOW + HOUR, "when it is over"
    with pytest.raises(InvalidSchedule, match="has passed"):
        planning.begin("j_2", "default", heard(end_at=render(NOW - HOUR)).spec, NOW)
    assert not is_one_shot(made.spec.schedule)


def test_ends_that_it_heard_of_are_its_instants() -> None:
    plan = planning.plan(heard(NOW - 2, NOW - 1, NOW + 5), NOW)
    assert [step.fire_time for step in plan.steps if isinstance(step, PlannedFire)] == [NOW - 2, NOW - 1]
    assert (plan.next_fire_at, plan.plan_at) == (NOW + 5, NOW + 5), "nothing is made ahead"


def test_what_ended_long_ago_is_caught_up_or_missed() -> None:
    instants = [NOW - 3 * HOUR, NOW - 2 * HOUR, NOW - MINUTE]
    span, fire = planning.plan(heard(*instants), NOW).steps
    assert isinstance(span, Span)
    assert (span.count, span.verdict) == (2, Verdict.MISSED)
    assert isinstance(fire, PlannedFire)
    assert fire.origin is Origin.CATCH_UP
    assert [type(step) for step in planning.plan(heard(*instants, catch_up="none"), NOW).steps] == [Span]


def test_what_calendars_exclude_is_owed() -> None:
    closed = _closed(NOW - HOUR, NOW + HOUR)
    excluded = heard(NOW - 2, NOW - 1, calendars=["freeze"], excluded="next_open")
    plan = planning.plan(excluded, NOW, closures=closed)
    [span] = plan.steps
    assert isinstance(span, Span)
    assert (span.count, plan.deferred_fire, plan.next_fire_at) == (2, NOW - 1, NOW + HOUR)
    later = excluded.with_(deferred_fire=plan.deferred_fire, next_fire_at=plan.next_fire_at, upstream_events=())
    assert planning.plan(later, NOW + HOUR - SECOND, closures=closed).steps == (), "others may end until then"
    [fire] = planning.plan(later, NOW + HOUR, closures=closed).steps
    assert isinstance(fire, PlannedFire)
    assert fire.fire_time == NOW + HOUR


def _closed(begin: Micros, end: Micros) -> Closures:
    entries = [{"from": render(begin), "to": render(end)}]
    calendar = msgspec.convert({"entries": entries}, Calendar)
    return Closures([NamedCalendar(tenant="default", name="freeze", calendar=calendar, version=1, updated_at=0)])


def test_it_can_be_said() -> None:
    assert describe(Follow("j_1", "failed")) == "After each failure of job j_1"
