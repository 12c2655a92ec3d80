"""Quotas: the days on which runs of a tenant begin."""

import pytest

from timeball.domain.instant import DAY, HOUR
from timeball.domain.quota import RunsOfDays, runs_of_days, too_many_runs

TODAY = 20_000
NOON = TODAY * DAY + 12 * HOUR


def filled(limit: int, *counts: int) -> RunsOfDays:
    """The counts of days from today on."""
    return runs_of_days(limit, NOON, dict(enumerate(counts, TODAY)))


def test_past_days_are_forgotten() -> None:
    found = runs_of_days(5, NOON, {TODAY - 1: 5, TODAY: 2, TODAY + 1: 1})
    assert found.days == {TODAY: 2, TODAY + 1: 1}
    assert found.begun_today == 2


def test_a_run_counts_on_the_day_on_which_it_may_begin() -> None:
    found = filled(2)
    for at in (NOON, NOON - 3 * DAY, NOON + 13 * HOUR):
        assert found.has_room(at)
        found.take(at)
    assert found.days == {TODAY: 2, TODAY + 1: 1}, "a fire of the past begins today"
    assert not found.has_room(NOON)
    assert found.left(NOON + DAY) == 1


@pytest.mark.parametrize(("counts", "days"), [((), 0), ((1,), 0), ((2,), 1), ((2, 2, 5), 3), ((2, 1), 1), ((0, 2), 0)])
def test_the_first_day_with_room(counts: tuple[int, ...], days: int) -> None:
    assert filled(2, *counts).first_room(NOON) == (NOON if not days else (TODAY + days) * DAY)


def test_without_any_room_there_is_no_day() -> None:
    assert filled(0).first_room(NOON) is None


def test_a_refusal_tells_when_the_day_ends() -> None:
    assert too_many_runs(3, NOON).retry_after == 12 * 3_600
    assert too_many_runs(3, TODAY * DAY).retry_after == 24 * 3_600
