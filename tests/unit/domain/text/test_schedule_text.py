"""The sentences that describe schedules, word for word. (`tests/properties/test_sentences.py` checks that they are
true.)"""

from __future__ import annotations

import pytest

from timeball.domain.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from timeball.domain.schedule.schedule import CronSchedule, Date, Immediate, Interval, Schedule
from timeball.domain.text.english import every, length, listed, ordinal, runs
from timeball.domain.text.schedule_text import describe, uses_hash

CRON = [
    # one time of day, and a few
    ("0 0 2 * * *", "At 02:00 every day"),
    ("30 14 * * *", "At 14:30 every day"),
    ("15 30 14 * * *", "At 14:30:15 every day"),
    ("15,45 0 2 * * *", "At 02:00:15 and 02:00:45 every day"),
    ("0 9,12,18 * * *", "At 09:00, 12:00 and 18:00 every day"),
    ("0,30 8,20 * * *", "At 08:00, 08:30, 20:00 and 20:30 every day"),
    ("0 */6 * * *", "At 00:00, 06:00, 12:00 and 18:00 every day"),
    ("*/15 9 * * *", "At 09:00, 09:15, 09:30 and 09:45 every day"),
    # a rhythm through the whole day
    ("* * * * * *", "Every second"),
    ("*/10 * * * * *", "Every 10 seconds"),
    ("* * * * *", "Every minute"),
    ("*/1 * * * *", "Every minute"),
    ("*/5 * * * *", "Every 5 minutes"),
    ("0,5,10,15,20,25,30,35,40,45,50,55 * * * *", "Every 5 minutes"),
    ("0/30 * * * *", "Every 30 minutes"),
    ("0 * * * *", "Every hour, on the hour"),
    # ... and what is almost one
    ("7 * * * *", "At minute 7 of every hour"),
    ("30 * * * * *", "At second 30 of every minute"),
    ("30 7 * * * *", "At second 30 of minute 7 of every hour"),
    ("3/5 * * * *", "Every 5 minutes from minute 3 to 58 of every hour"),
    ("*/7 * * * *", "Every 7 minutes from minute 0 to 56 of every hour"),
    ("*/40 * * * *", "At minutes 0 and 40 of every hour"),
    ("10-20 * * * *", "Every minute from minute 10 to 20 of every hour"),
    ("10-40/10 * * * *", "At minutes 10, 20, 30 and 40 of every hour"),
    ("5-10,30 * * * *", "At minutes 5 to 10 and 30 of every hour"),
    ("5 */10 * * * *", "At second 5 of every 10th minute from 0 to 50 of every hour"),
    ("* 10-20 * * * *", "Every second of minutes 10 to 20 of every hour"),
    ("*/25 * * * * *", "At seconds 0, 25 and 50 of every minute"),
    # a rhythm through a part of the day
    ("0 */2 * * *", "Every 2 hours from 00:00 to 22:00 every day"),
    ("0 */5 * * *", "Every 5 hours from 00:00 to 20:00 every day"),
    ("0 9-17 * * *", "Every hour from 09:00 to 17:00 every day"),
    ("30 9-17/2 * * *", "Every 2 hours from 09:30 to 17:30 every day"),
    ("* 2 * * *", "Every minute from 02:00 to 02:59 every day"),
    ("*/5 9-16 * * *", "Every 5 minutes from 09:00 to 16:55 every day"),
    ("*/20 * 9-16 * * *", "Every 20 seconds from 09:00:00 to 16:59:40 every day"),
    ("30 */5 9 * * *", "Every 5 minutes from 09:00:30 to 09:55:30 every day"),
    # ... field by field, where there is none
    ("* 9,17 * * *", "Every minute of hours 9 and 17 every day"),
    ("0,30 8,10,13,17,20 * * *", "At minutes 0 and 30 of hours 8, 10, 13, 17 and 20 every day"),
    ("*/7 8-18/2 * * *", "Every 7 minutes from minute 0 to 56 of every 2nd hour from 8 to 18 every day"),
    ("1-3 1,5,9 6-8 * * *", "At seconds 1 to 3 of minutes 1, 5 and 9 of hours 6 to 8 every day"),
    # days of week
    ("0 9 * * MON-FRI", "At 09:00, Monday to Friday"),
    ("0 9 ? * 1-5", "At 09:00, Monday to Friday"),
    ("0 9 * * FRI-SUN", "At 09:00, Friday to Sunday"),
    ("0 9 * * SUN-TUE", "At 09:00, Sunday to Tuesday"),
    ("0 9 * * MON", "At 09:00 every Monday"),
    ("0 9 * * 7", "At 09:00 every Sunday"),
    ("0 9 * * SAT,SUN", "At 09:00 every Saturday and Sunday"),
    ("0 9 * * 5,1,3", "At 09:00 every Monday, Wednesday and Friday"),
    ("*/5 * * * MON", "Every 5 minutes, every Monday"),
    ("*/5 9-16 * * MON-FRI", "Every 5 minutes from 09:00 to 16:55, Monday to Friday"),
    ("0 9 * * MON#2", "At 09:00 on the 2nd Monday of the month"),
    ("0 9 * * MON#1,MON#3", "At 09:00 on the 1st and 3rd Monday of the month"),
    ("0 9 * * 5L", "At 09:00 on the last Friday of the month"),
    ("0 9 * * MON#1,MONL", "At 09:00 on the 1st and last Monday of the month"),
    ("0 9 * * TUE,FRI#1", "At 09:00 on every Tuesday and on the 1st Friday of the month"),
    # days of month
    ("0 0 1 * *", "At 00:00 on the 1st of every month"),
    ("0 0 1,15 * *", "At 00:00 on the 1st and 15th of every month"),
    ("0 0 31 * *", "At 00:00 on the 31st of every month that has one"),
    ("0 0 15,31 * *", "At 00:00 on the 15th and 31st"),
    ("0 0 1-7 * *", "At 00:00 from the 1st to the 7th of every month"),
    ("0 0 1-3,20 * *", "At 00:00 on the 1st to 3rd and 20th of every month"),
    ("0 0 */2 * *", "At 00:00 on every 2nd day from the 1st to the 31st of the month"),
    ("0 0 L * *", "At 00:00 on the last day of the month"),
    ("0 0 L-1 * *", "At 00:00 on the day before the last day of the month"),
    ("0 0 L-3 * *", "At 00:00 on the 3rd day before the last day of the month"),
    ("0 0 1,L * *", "At 00:00 on the 1st and on the last day of the month"),
    ("0 0 LW * *", "At 00:00 on the last weekday (Mon-Fri) of the month"),
    ("0 0 15W * *", "At 00:00 on the weekday (Mon-Fri) nearest to the 15th"),
    # both
    ("0 0 13 * FRI", "At 00:00 on the 13th and on every Friday"),
    ("0 0 1 * MON-FRI", "At 00:00 on the 1st and on every day from Monday to Friday"),
    ("0 0 1-31 * FRI", "At 00:00 every day"),
    ("0 0 13 * */5", "At 00:00 on the 13th, if that is a Friday or a Sunday"),
    ("0 0 */15 * 1-5", "At 00:00 on the 1st, 16th and 31st, if that is a day from Monday to Friday"),
    ("0 0 1-7 * */7", "At 00:00 from the 1st to the 7th, if that is a Sunday"),
    ("0 0 */16 * 1#3", "At 00:00 on the 1st and 17th, if that is the 3rd Monday of the month"),
    # months
    ("0 0 * 6 *", "At 00:00 every day in June"),
    ("*/5 * * 6-8 *", "Every 5 minutes from June to August"),
    ("0 0 * 11,12,1 *", "At 00:00 every day from November to January"),
    ("0 0 1 1 *", "At 00:00 on the 1st of January"),
    ("0 0 1 */3 *", "At 00:00 on the 1st, in January, April, July and October"),
    ("0 0 29 2 *", "At 00:00 on the 29th of February"),
    ("0 0 L FEB *", "At 00:00 on the last day of February"),
    ("0 9 * NOV THU#4", "At 09:00 on the 4th Thursday of November"),
    ("0 9 * JAN-MAR MON-FRI", "At 09:00, Monday to Friday, from January to March"),
    ("0 0 13 6 FRI", "At 00:00 on the 13th and on every Friday, in June"),
    ("*/20 59 23 31 12 ?", "At 23:59:00, 23:59:20 and 23:59:40 on the 31st of December"),
    # days that never come are not spoken of
    ("0 0 30,31 4 *", "At 00:00 on the 30th of April"),
    ("0 0 31 4,5 *", "At 00:00 on the 31st of May"),
    ("0 0 1-30 4 *", "At 00:00 every day in April"),
    ("0 0 31 4 MON", "At 00:00 every Monday, in April"),
    # macros
    ("@hourly", "Every hour, on the hour"),
    ("@daily", "At 00:00 every day"),
    ("@Midnight", "At 00:00 every day"),
    ("@weekly", "At 00:00 every Sunday"),
    ("@monthly", "At 00:00 on the 1st of every month"),
    ("@annually", "At 00:00 on the 1st of January"),
]


@pytest.mark.parametrize(("expression", "sentence"), CRON)
def test_cron(expression: str, sentence: str) -> None:
    assert describe(CronSchedule(expression)) == sentence
    assert describe(CronSchedule(expression, "Asia/Tokyo")) == f"{sentence} (Asia/Tokyo)"


@pytest.mark.parametrize(
    ("expression", "place", "sentence"),
    [
        ("*/20 * * * *", "Europe/Berlin", "Every 20 minutes (Europe/Berlin)"),
        # Its clocks move by half an hour: 20 minutes do not fit into that.
        ("*/20 * * * *", "Australia/Lord_Howe", "At minutes 0, 20 and 40 of every hour (Australia/Lord_Howe)"),
        ("*/15 * * * *", "Australia/Lord_Howe", "Every 15 minutes (Australia/Lord_Howe)"),
        # Bound to the wall clock, it does not run again when clocks go back.
        ("0/5 0/1 * * *", "Europe/Berlin", "Every 5 minutes from minute 0 to 55 of every hour (Europe/Berlin)"),
        ("0/5 0/1 * * *", "Asia/Tokyo", "Every 5 minutes (Asia/Tokyo)"),
        # The changes of Morocco are on record until 2087, and follow no rule.
        ("0-59 0-23 * * *", "Africa/Casablanca", "Every minute of every hour (Africa/Casablanca)"),
    ],
)
def test_every_n_minutes_is_said_where_clock_changes_leave_it_true(expression: str, place: str, sentence: str) -> None:
    assert describe(CronSchedule(expression, place)) == sentence


@pytest.mark.parametrize(
    ("schedule", "sentence"),
    [
        (Immediate(), "Once, as soon as the job is accepted"),
        (Date("2026-03-01T02:00:00Z"), "Once, on 1 March 2026 at 02:00 UTC"),
        (Date("2026-03-01 23:30:05+02:00"), "Once, on 1 March 2026 at 23:30:05 UTC+02:00"),
        (Date("2026-12-31T02:00:00.250-0330"), "Once, on 31 December 2026 at 02:00:00.25 UTC-03:30"),
        (Date("2026-03-01T02:00-00:00"), "Once, on 1 March 2026 at 02:00 UTC"),
        (Interval("15m"), "Every 15 minutes, counted from its start"),
        (Interval(3600), "Every hour, counted from its start"),
        (Interval("90s"), "Every 1 minute and 30 seconds, counted from its start"),
        (Interval("1d"), "Every 24 hours, counted from its start"),
        (Interval("7d"), "Every 7 days, counted from its start"),
        (
            Interval("1d2h3m4s5ms"),
            "Every 1 day, 2 hours, 3 minutes, 4 seconds and 5 milliseconds, counted from its start",
        ),
    ],
)
def test_the_other_types(schedule: Schedule, sentence: str) -> None:
    assert describe(schedule) == sentence


def test_h_tells_the_slot_it_came_to() -> None:
    assert describe(CronSchedule("H H * * *"), "default/etl") == "At 05:43 every day (the slot that H gives this job)"
    berlin = describe(CronSchedule("H(0-9) 3 * * *", "Europe/Berlin"), "default/etl")
    assert berlin == "At 03:03 every day (Europe/Berlin; the slot that H gives this job)"
    assert describe(CronSchedule("H 3 * * *")).endswith("(an example of the slot that H gives a job)")


@pytest.mark.parametrize(
    ("expression", "uses"),
    [
        ("H * * * *", True),
        ("0 h/2 * * *", True),
        ("0 0 1,H(5-9) * *", True),
        ("0 0 * * H", True),
        ("0 0 * * THU", False),
        ("0 0 * * thu#2", False),
        ("@hourly", False),
        ("@monthly", False),
    ],
)
def test_an_h_within_a_name_is_none(expression: str, uses: bool) -> None:
    assert uses_hash(expression) is uses


def test_english() -> None:
    assert [ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 31, 112)] == (
        ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd", "31st", "112th"]
    )
    assert [listed(["a", "b", "c"][:count]) for count in range(4)] == ["", "a", "a and b", "a, b and c"]
    assert runs([1, 2, 5, 6, 7, 9]) == ["1", "2", "5 to 7", "9"]
    assert [length(time) for time in (0, MILLISECOND, 2 * DAY + HOUR)] == [
        "0 seconds",
        "1 millisecond",
        "2 days and 1 hour",
    ]
    assert [every(time) for time in (SECOND, 90 * MINUTE)] == ["every second", "every 1 hour and 30 minutes"]
