"""Durations, times, priorities and ids, as users write them."""

import random

import pytest

from timeball.domain import duration, ids, instant, retention
from timeball.domain.dispatch import priority
from timeball.domain.errors import Invalid
from timeball.domain.instant import DAY, HOUR, MINUTE, SECOND
from timeball.domain.job.job import HORIZON


@pytest.mark.parametrize(
    ("text", "micros"),
    [("90s", 90 * SECOND), ("15m", 15 * MINUTE), ("1h30m", 90 * MINUTE), ("500ms", SECOND // 2), (7, 7 * SECOND),
     ("7", 7 * SECOND), ("2d", 2 * DAY)],
)  # fmt: skip
def test_durations_are_read(text, micros) -> None:
    assert duration.parse(text) == micros


@pytest.mark.parametrize("text", ["", "m", "1.5h", "-5s", "5 m", "٣s", "1w", True, "9" * 30 + "s", -1, "0s" * 51])
def test_other_durations_are_refused_with_the_value(text) -> None:
    with pytest.raises(Invalid, match=r"is not a duration|is too (long|short)"):
        duration.parse(text)


@pytest.mark.parametrize("micros", [0, SECOND, 90 * SECOND, HOUR + 5 * SECOND, DAY, 1500_000])
def test_durations_are_written_as_they_are_read(micros) -> None:
    assert duration.parse(duration.render(micros)) == micros


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("2026-03-01T02:00:00Z", "2026-03-01T02:00:00Z"),
        ("2026-03-01T02:00:00+01:00", "2026-03-01T01:00:00Z"),
        ("2026-03-01 02:00Z", "2026-03-01T02:00:00Z"),
        ("2026-03-01t02:00:00z", "2026-03-01T02:00:00Z"),
        ("2026-03-01T02:00:00.5Z", "2026-03-01T02:00:00.500Z"),
        ("2026-03-01T02:00:00.00005Z", "2026-03-01T02:00:00.000050Z"),
        ("2026-03-01T02:00:00.123456789Z", "2026-03-01T02:00:00.123457Z"),
        ("2026-03-01T02:00:00.999999001Z", "2026-03-01T02:00:01Z"),
        ("2026-03-01T02:00:00.123456000Z", "2026-03-01T02:00:00.123456Z"),
    ],
)
def test_times_are_read_and_written_in_utc(text, rendered) -> None:
    assert instant.render(instant.parse(text)) == rendered


@pytest.mark.parametrize(
    "text", ["2026-03-01T02:00:00", "2026-03-01", "tomorrow", "2026-02-30T00:00:00Z", "2026-03-01T25:00:00Z",
             "1969-12-31T23:59:59Z", "9999-12-31T23:59:59-01:00", "2026-03-01T02:00:00+99:00"],
)  # fmt: skip
def test_other_times_are_refused(text) -> None:
    with pytest.raises(Invalid):
        instant.parse(text)


def test_priorities_have_names_and_numbers() -> None:
    assert [priority.level(value) for value in ("low", "medium", "HIGH", 0, 9)] == [2, 5, 8, 0, 9]
    for wrong in ("urgent", 10, -1, True):
        with pytest.raises(Invalid):
            priority.level(wrong)


def test_a_low_run_that_waited_long_enough_outranks_a_fresh_high_one() -> None:
    low, high = priority.NAMES["low"], priority.NAMES["high"]
    bound = (high - low) * priority.CREDIT
    assert priority.rank(0, low) < priority.rank(bound + 1, high)
    assert priority.rank(0, low) > priority.rank(bound - 1, high)


def test_ids_sort_by_age_and_tell_their_day() -> None:
    rng = random.Random(1)
    older, newer = ids.run(1_700_000_000_000_000, rng), ids.run(1_700_000_000_001_000, rng)
    assert older < newer
    assert ids.made_at(newer) == 1_700_000_000_001_000
    assert ids.is_id("r", newer)
    assert not ids.is_id("j", newer)
    assert not ids.is_id("r", "r_../../etc")


@pytest.mark.parametrize("count", [0, 1, 2, 1_000])
def test_ids_of_a_batch_are_as_many_and_all_different(count: int) -> None:
    made = ids.many("j", 1_700_000_000_001_000, random.Random(1), count)
    assert len(set(made)) == count
    assert all(ids.is_id("j", each) and ids.made_at(each) == 1_700_000_000_001_000 for each in made)


def test_the_fire_of_a_run_is_past_before_the_run_may_be_deleted() -> None:
    """I23: daily sums count every fire of a day, so they must not contain fires to come."""
    latest_fire = DAY - 1 + HORIZON  # of a run that was created in the last moment of a day
    first_deletion = DAY + retention.SHORTEST
    assert retention.day_of(latest_fire) + DAY <= first_deletion
