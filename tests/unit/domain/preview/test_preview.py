"""What a preview shows before a schedule is saved: fires with the marks of clock changes, and warnings."""

from __future__ import annotations

import pytest

from timeball.domain import instant
from timeball.domain.preview.preview import Preview, preview
from timeball.domain.schedule.schedule import CronSchedule, Date, Immediate, Interval, Schedule

BERLIN = "Europe/Berlin"


def look(schedule: Schedule, now: str = "2026-06-01T00:00:00Z", count: int = 5, spread: str = "") -> Preview:
    return preview(schedule, instant.parse(now), count, spread)


def marked(schedule: Schedule, now: str, count: int) -> list[tuple[str, str | None, str]]:
    return [(fire.local.isoformat(), fire.mark, fire.note) for fire in look(schedule, now, count).fires]


def warnings(expression: str, place: str = "UTC", now: str = "2026-06-01T00:00:00Z", count: int = 5) -> list[str]:
    return list(look(CronSchedule(expression, place), now, count).warnings)


# --- marks --------------------------------------------------------------------------------------------------------


def test_a_fire_that_was_moved_out_of_the_gap() -> None:
    assert marked(CronSchedule("30 2 * * *", BERLIN), "2026-03-28T00:00:00Z", 3) == [
        ("2026-03-28T02:30:00+01:00", None, ""),
        ("2026-03-29T03:00:00+02:00", "dst_gap", "02:30 does not exist: clocks go from 02:00 to 03:00"),
        ("2026-03-30T02:30:00+02:00", None, ""),
    ]


def test_fires_that_collapse_into_one() -> None:
    two = marked(CronSchedule("0,30 2 * * *", BERLIN), "2026-03-28T12:00:00Z", 2)
    assert two[0] == (
        "2026-03-29T03:00:00+02:00",
        "dst_gap",
        "02:00 and 02:30 do not exist: clocks go from 02:00 to 03:00",
    )
    many = marked(CronSchedule("0/10 2-3 * * *", BERLIN), "2026-03-28T12:00:00Z", 2)
    assert many[0][2] == "02:00, 02:10, 02:20 and more do not exist: clocks go from 02:00 to 03:00"
    assert many[1] == ("2026-03-29T03:10:00+02:00", None, "")


def test_a_skipped_fire_leaves_only_the_change_to_tell() -> None:
    skip = CronSchedule("30 2 * * *", BERLIN, dst_gap="skip")
    assert marked(skip, "2026-03-28T00:00:00Z", 2)[1] == (
        "2026-03-30T02:30:00+02:00",
        None,
        "clocks went forward by 1 hour",
    )


def test_a_fire_in_the_repeated_hour() -> None:
    assert marked(CronSchedule("30 2 * * *", BERLIN), "2026-10-24T12:00:00Z", 2) == [
        ("2026-10-25T02:30:00+02:00", "dst_overlap", "02:30 comes twice: this is the first time, and the only fire"),
        ("2026-10-26T02:30:00+01:00", None, "clocks went back by 1 hour"),
    ]
    both = CronSchedule("30 2 * * *", BERLIN, dst_overlap="both")
    assert marked(both, "2026-10-24T12:00:00Z", 3) == [
        ("2026-10-25T02:30:00+02:00", "dst_overlap", "02:30 comes twice: this is the first time"),
        ("2026-10-25T02:30:00+01:00", "dst_overlap", "02:30 comes twice: this is the second time"),
        ("2026-10-26T02:30:00+01:00", None, ""),
    ]


def test_a_job_of_elapsed_time_is_marked_both_times_and_never_moved() -> None:
    half_hours = CronSchedule("*/30 * * * *", BERLIN)
    autumn = [mark for _, mark, _ in marked(half_hours, "2026-10-24T23:00:00Z", 6)]
    assert autumn == [None, *["dst_overlap"] * 4, None]
    spring = marked(half_hours, "2026-03-29T00:30:00Z", 2)
    assert spring[0] == ("2026-03-29T03:00:00+02:00", None, "clocks went forward by 1 hour")


def test_changes_at_midnight_and_of_a_whole_day_name_the_date() -> None:
    assert marked(CronSchedule("30 23 * * *", "America/Santiago"), "2026-04-04T12:00:00Z", 1)[0][1] == "dst_overlap"
    apia = marked(CronSchedule("0 12 30 12 *", "Pacific/Apia"), "2011-12-28T00:00:00Z", 1)
    assert apia == [
        (
            "2011-12-31T00:00:00+14:00",
            "dst_gap",
            "2011-12-30 12:00 does not exist: clocks go from 2011-12-30 00:00 to 2011-12-31 00:00",
        )
    ]


# --- other types --------------------------------------------------------------------------------------------------


def test_one_shots_have_one_fire_however_many_are_asked_for() -> None:
    now = "2026-06-01T00:00:00Z"
    assert [fire.at for fire in look(Immediate()).fires] == [instant.parse(now)]
    ahead = look(Date("2026-07-01T02:00:00+02:00"))
    assert [instant.render(fire.at) for fire in ahead.fires] == ["2026-07-01T00:00:00Z"]
    assert ahead.warnings == ()
    past = look(Date("2020-01-01T00:00:00Z"))
    assert past.warnings == ("this time is in the past: the job runs as soon as it is accepted",)


def test_an_interval_is_a_grid_from_now() -> None:
    found = look(Interval("90m"), "2026-06-01T00:10:00.5Z", 2)
    assert [instant.render(fire.at) for fire in found.fires] == ["2026-06-01T01:40:00.500Z", "2026-06-01T03:10:00.500Z"]
    assert look(Interval(1)).warnings == ("once a second is the highest frequency at which a schedule can fire",)
    assert look(Interval("400d")).warnings == ("the first fire is more than a year away, at 2027-07-06T00:00:00Z",)


def test_h_needs_a_name() -> None:
    named = look(CronSchedule("H 3 * * *"), spread="default/etl")
    assert named.warnings == ()
    assert named.description == f"At {named.fires[0].local:%H:%M} every day (the slot that H gives this job)"
    [warning] = look(CronSchedule("H 3 * * *")).warnings
    assert warning == "H derives the slot of a job from its name; without a name the slot shown here is only an example"


# --- warnings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        *("*/5 * * * *", "0 2 * * *", "0 9 * * MON-FRI", "0 0 L * *", "0 */6 * * *", "9-17/2 * * * *", "@monthly"),
        *("0 8-18/3 * * *", "0 0 1,L * *", "*/7 9 * * *", "0 0 * * MON#5,5L", "0 9 * * 1,3,5", "0 0 31 1,3 *"),
    ],
)
def test_usual_schedules_give_no_warning(expression: str) -> None:
    assert warnings(expression) == []


@pytest.mark.parametrize(
    ("expression", "warning"),
    [
        ("0 0 13 * FRI", "both day fields are restricted: a day fires if it matches either of them"),
        ("0 0 1-31 * FRI", "day of month '1-31' matches every day, and one matching day field is enough"),
        ("0 0 13 * 0-6", "day of week '0-6' matches every day"),
        ("0 0 */2 * MON", "day of month '*/2' begins with *, so a day must match both day fields"),
        ("0 0 13 * */5", "day of week '*/5' begins with *, so a day must match both day fields"),
        ("*/7 * * * *", "minute '*/7' restarts every hour: its last step is 4 minutes, not 7"),
        ("*/50 * * * *", "minute '*/50' restarts every hour: its last step is 10 minutes, not 50"),
        ("3/7 * * * *", "its last step is 4 minutes, not 7"),
        ("*/25 * * * * *", "second '*/25' restarts every minute: its last step is 10 seconds, not 25"),
        ("0 */5 * * *", "hour '*/5' restarts every day: its last step is 4 hours, not 5"),
        ("0 0 */3 * *", "day of month '*/3' restarts every month: its last step may be shorter than 3 days"),
        ("0 0 1 */5 *", "month '*/5' restarts every year: its last step is 2 months, not 5"),
        ("0 0 * * */2", "day of week '*/2' restarts every week: its last step is 1 day, not 2"),
        ("* * * * * *", "once a second is the highest frequency at which a schedule can fire"),
        ("* 0 2 * * *", "the first of six fields is the second: the job fires 60 times per matching minute"),
        (
            "* 2 * * *",
            "every minute of the hour matches: the job fires 60 times in it; use a number such as 0 for once",
        ),
        ("0 0 31 * *", "months without a 31st are skipped; L is the last day of every month"),
        ("0 0 29-31 * *", "months without a 29th are skipped"),
        ("0 0 31W * *", "months without a 31st are skipped"),
        ("0 0 29 2 *", "29 February exists in leap years only"),
        ("0 0 * * MON#5", "not every month has a 5th Monday; 1L is the last one of every month"),
        ("0 0 29 2 *", "the first fire is more than a year away, at 2028-02-29T00:00:00Z"),
    ],
)
def test_warnings(expression: str, warning: str) -> None:
    assert any(warning in found for found in warnings(expression)), warnings(expression)


def test_a_schedule_that_comes_to_its_end() -> None:
    assert warnings("0 0 29 2 */7", count=1_000)[1].startswith(
        "the schedule fires only 259 times before the end of the year 9999"
    )
    # In Berlin a 29 March that is a Sunday is the day on which 02:30 does not exist.
    never = look(CronSchedule("30 2 29 3 */7", BERLIN, dst_gap="skip"))
    assert never.fires == ()
    assert never.warnings[0] == "the schedule never fires after 2026-06-01T00:00:00Z"


@pytest.mark.parametrize(
    ("schedule", "spring", "autumn"),
    [
        (
            CronSchedule("30 2 * * *", BERLIN),
            "02:30 does not exist and fires at 03:00 instead",
            "02:30 comes twice and fires the first time only",
        ),
        (
            CronSchedule("0,30 2 * * *", BERLIN),
            "02:00 and 02:30 do not exist and fire once, at 03:00",
            "02:00 and 02:30 come twice and fire the first time only",
        ),
        (
            CronSchedule("30 2 * * *", BERLIN, "skip", "both"),
            "02:30 does not exist and does not fire",
            "02:30 comes twice and fires both times",
        ),
        (
            CronSchedule("0 */2 * * *", BERLIN),
            "02:00 does not exist and does not fire",
            "02:00 comes twice and fires both times",
        ),
    ],
)
def test_clock_changes_of_the_coming_year_are_told(schedule: CronSchedule, spring: str, autumn: str) -> None:
    assert look(schedule).warnings == (
        f"on 2026-10-25 clocks in {BERLIN} go from 03:00 to 02:00: {autumn}",
        f"on 2027-03-28 clocks in {BERLIN} go from 02:00 to 03:00: {spring}",
    )


@pytest.mark.parametrize(
    "expression", ["0 3 * * *", "59 1 * * *", "30 2 * * MON", "30 2 13 * *", "0 * * * *", "*/5 * * * *", "30 * * * SUN"]
)
def test_clock_changes_that_change_nothing_are_not_told(expression: str) -> None:
    assert warnings(expression, BERLIN) == []


@pytest.mark.parametrize("now", ["1970-01-01T00:00:00Z", "9999-12-29T12:00:00Z", "9999-12-31T00:00:00Z"])
@pytest.mark.parametrize("place", ["UTC", "Europe/Berlin", "Africa/Monrovia", "Pacific/Kiritimati", "Etc/GMT+12"])
def test_the_ends_of_time(now: str, place: str) -> None:
    for schedule in (
        CronSchedule("30 2 * * *", place),
        CronSchedule("*/5 * * * *", place),
        Interval("1d"),
        Immediate(),
    ):
        found = look(schedule, now, 1_000)
        assert all(fire.local.year >= 1969 for fire in found.fires)
