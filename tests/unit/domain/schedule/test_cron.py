"""Cron by hand: what is refused and why, and the effect of clock changes on a schedule, zone by zone."""

from __future__ import annotations

import itertools
import struct
import time
from datetime import UTC, datetime

import pytest

from timeball.domain.errors import InvalidSchedule
from timeball.domain.schedule import cron, zone
from timeball.domain.schedule.fires import DstGap, DstOverlap


def instant(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


def fires(
    expression: str,
    name: str,
    after: str,
    count: int,
    dst_gap: DstGap = "run",
    dst_overlap: DstOverlap = "first",
) -> list[str]:
    """The next fires as UTC, without the year if it is that of `after`; both ways of asking must agree."""
    parsed, there = cron.parse(expression), zone.get(name)
    start = instant(after)
    found = list(itertools.islice(cron.fires(parsed, there, start, dst_gap=dst_gap, dst_overlap=dst_overlap), count))
    for fire in found:
        start_next = cron.next_fire(parsed, there, start, dst_gap=dst_gap, dst_overlap=dst_overlap)
        assert start_next == fire
        start = fire
    texts = [datetime.fromtimestamp(fire // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S") for fire in found]
    return [text.removeprefix(after[:5]).removesuffix(":00") for text in texts]


REFUSED = [
    # dates that never come
    ("0 0 30 2 *", "never fires: month '2' has no day '30', in any year"),
    ("0 0 31 4,6 *", "never fires"),
    ("0 0 31 FEB-FEB ?", "never fires"),
    ("0 0 30W 2 *", "never fires"),
    ("0 0 31W 4,6,9,11 *", "never fires"),
    ("0 0 L-29 2 *", "never fires"),
    ("0 0 L-30 4 *", "never fires"),
    ("0 0 */30 2 1#2,1#3", "month '2' has no day '*/30' that is day of week '1#2,1#3', in any year"),
    ("0 0 */15 * 1#2", "never fires"),
    # steps
    ("*/61 * * * *", "minute '*/61': the step 61 is larger than the field, which has 60 values"),
    ("0 */25 * * *", "larger than the field"),
    ("0 0 */32 * *", "larger than the field"),
    ("0 0 * */13 *", "larger than the field"),
    ("0 0 * * */8", "larger than the field"),
    ("5/61 * * * *", "larger than the field"),
    ("H/61 * * * *", "larger than the field"),
    ("H(0-5)/7 * * * *", "larger than the range 0-5"),
    ("*/0 * * * *", "minute '*/0': the step must be at least 1"),
    ("*/x * * * *", "the step 'X' is not a number"),
    ("*/-1 * * * *", "expected a value"),
    ("*/ * * * *", "expected a value"),
    ("*/5/5 * * * *", "expected a value"),
    ("?/2 * * * *", "? is allowed only alone"),
    # ranges
    ("30-10 * * * *", "minute '30-10': the range is reversed; write 10-30"),
    ("0 0 * * SAT-MON", "reversed"),
    ("0 0 * * 5-0", "reversed"),
    ("0 0 * * 7-1", "reversed"),
    ("0 0 * NOV-FEB *", "reversed"),
    ("H(9-3) * * * *", "reversed"),
    ("1-2-3 * * * *", "expected a value"),
    ("-5 * * * *", "expected a value"),
    ("5- * * * *", "expected a value"),
    # values
    ("60 * * * *", "minute '60': 60 is out of range 0-59"),
    ("* 24 * * *", "hour '24': 24 is out of range 0-23"),
    ("* * 0 * *", "day of month '0': 0 is out of range 1-31"),
    ("* * 32 * *", "out of range 1-31"),
    ("* * * 0 *", "month '0': 0 is out of range 1-12"),
    ("* * * 13 *", "out of range 1-12"),
    ("* * * * 8", "day of week '8': 8 is out of range 0-7"),
    ("60 * * * * *", "second '60': 60 is out of range 0-59"),
    ("99999999999999999999 * * * *", "out of range"),
    ("* * L-31 * *", "the largest offset within a month is L-30"),
    ("* * 32W * *", "out of range 1-31"),
    ("* * 0W * *", "out of range 1-31"),
    ("* * * * 8L", "out of range 0-7"),
    ("* * * * MON#6", "# must be followed by 1 to 5"),
    ("* * * * MON#0", "# must be followed by 1 to 5"),
    ("* * * * #2", "expected a value"),
    ("* * * * L", "as in 5L for the last Friday"),
    ("H(50-60) * * * *", "out of range 0-59"),
    # names
    ("* * * FOO *", "month 'FOO': 'FOO' is not one of 1-12 or JAN-DEC"),
    ("* * * * MONDAY", "'MONDAY' is not one of 0-7 or SUN-SAT"),
    ("MON * * * *", "minute 'MON': 'MON' is not one of 0-59"),
    ("* * MON * *", "'MON' is not one of 1-31"),
    # where things may stand
    ("? * * * *", "minute '?': ? is allowed only alone, as the day of month or the day of week"),
    ("* ? * * *", "? is allowed only alone"),
    ("* * * ? *", "? is allowed only alone"),
    ("* * ?,1 * *", "? is allowed only alone"),
    ("L * * * *", "minute 'L': 'L' is not one of"),
    ("* * * L *", "month 'L': 'L' is not one of"),
    ("* * * * 5W", "day of week '5W'"),
    ("* * MON#2 * *", "day of month 'MON#2': expected"),
    ("* * W * *", "'W' is not one of 1-31"),
    ("* * L-W * *", "day of month"),
    ("* * 1-5W * *", "day of month"),
    ("* * * * MON-FRI#2", "day of week"),
    ("** * * * *", "expected a value"),
    ("*5 * * * *", "expected a value"),
    # lists
    ("1,,2 * * * *", "minute '': empty"),
    (",1 * * * *", "empty"),
    ("1, * * * *", "empty"),
    # the whole
    ("", "empty"),
    ("  \t ", "empty"),
    ("*", "has 1 field; cron has 5, or 6 with seconds first"),
    ("* * * *", "has 4 fields; cron has 5, or 6 with seconds first"),
    ("0 0 0 1 1 * 2030", "has 7 fields; cron has 5, or 6 with seconds first; there is no year field"),
    ("* " * 8, "has 8 fields"),
    ("@reboot", "'@reboot' names no time"),
    ("@REBOOT", "'@reboot' names no time"),
    ("@every 5m", "use a schedule of type 'interval'"),
    ("@fortnightly", "there is no '@fortnightly'; there are @hourly, @daily"),
    ("@", "there is no '@'"),
    ("@daily 5", "there is no '@daily 5'"),
    ("٣ * * * *", "plain ASCII text; '٣' is not"),
    ("\uff15 * * * *", "plain ASCII"),
    ("² * * * *", "plain ASCII"),
    ("0 0 * * *\u00a0", "plain ASCII"),
    ("0 0 * * *\n", "plain ASCII"),
    ("0 0 * * *\x00", "plain ASCII"),
    ("\ud800 * * * *", "plain ASCII"),
    ("1_0 * * * *", "'1_0' is not one of 0-59"),
    ("+5 * * * *", "expected a value"),
    ("1.5 * * * *", "expected a value"),
    ("TZ=UTC 0 0 * * *", "second 'TZ=UTC': expected a value"),
    ("* * * * " + "1," * 124 + "1", "at most 256 characters, not 257"),
]


@pytest.mark.parametrize(("expression", "reason"), REFUSED)
def test_refused_with_the_reason(expression: str, reason: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        cron.parse(expression)
    assert reason in caught.value.detail
    assert len(caught.value.detail) < 700


def test_256_characters_are_accepted() -> None:
    assert cron.parse("00 * * * " + "1," * 123 + "1").weekdays


EQUAL = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@Midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * SUN"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 jan *"),
    (" 0\t0  * * * ", "0 0 0 * * *"),
    ("5/15 * * * *", "5,20,35,50 * * * *"),
    ("10-40/15 * * * *", "10,25,40 * * * *"),
    ("0 0 1 2-2 *", "0 0 1 2 *"),
    ("0 0 1 2-2/5 *", "0 0 1 2 *"),
    ("0 0 * * 7", "0 0 * * 0"),
    ("0 0 * * 5-7", "0 0 * * 0,5,6"),
    ("0 0 * * FRI-SUN", "0 0 * * FRI,SAT,SUN"),
    ("0 0 * * sun-tue", "0 0 * * 0-2"),
    ("0 0 * * 0-7", "0 0 * * 0-6"),
    ("0 0 * * 1-7/3", "0 0 * * MON,THU,SUN"),
    ("0 0 * * 1/2", "0 0 * * 1,3,5"),
    ("0 0 * * 7/2", "0 0 * * 0/2"),
    ("0 0 * * 7L", "0 0 * * sunl"),
    ("0 0 * * 7#2", "0 0 * * SUN#2"),
    ("0 0 L-0 * *", "0 0 l * *"),
    ("0 0 1 JAN-MAR,dec ?", "0 0 1 1-3,12 *"),
    ("*/60 * * * *", "*/60,0 * * * *"),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_two_spellings_of_the_same(one: str, other: str) -> None:
    assert fires(one, "Europe/Berlin", "2025-03-28", 20) == fires(other, "Europe/Berlin", "2025-03-28", 20)


CALENDAR = [
    ("0 0 L * *", ["01-31 00:00", "02-28 00:00", "03-31 00:00", "04-30 00:00"]),
    ("0 0 L-3 * *", ["01-28 00:00", "02-25 00:00", "03-28 00:00", "04-27 00:00"]),
    ("0 0 L-30 * *", ["03-01 00:00", "05-01 00:00", "07-01 00:00", "08-01 00:00"]),
    ("0 0 LW * *", ["01-31 00:00", "02-28 00:00", "03-31 00:00", "04-30 00:00", "05-30 00:00"]),
    ("0 0 15W * *", ["01-15 00:00", "02-14 00:00", "03-14 00:00", "04-15 00:00"]),
    ("0 0 1W * *", ["02-03 00:00", "03-03 00:00", "04-01 00:00", "05-01 00:00", "06-02 00:00"]),
    ("0 0 31W * *", ["01-31 00:00", "03-31 00:00", "05-30 00:00", "07-31 00:00", "08-29 00:00"]),
    ("0 0 * * 5L", ["01-31 00:00", "02-28 00:00", "03-28 00:00", "04-25 00:00"]),
    ("0 0 * * MON#2", ["01-13 00:00", "02-10 00:00", "03-10 00:00"]),
    ("0 0 ? * MON#5", ["03-31 00:00", "06-30 00:00", "09-29 00:00", "12-29 00:00"]),
    ("0 0 * * MON#1,5L", ["01-06 00:00", "01-31 00:00", "02-03 00:00", "02-28 00:00"]),
    ("0 0 1,L * ?", ["01-31 00:00", "02-01 00:00", "02-28 00:00"]),
    ("0 0 29 2 *", ["2028-02-29 00:00", "2032-02-29 00:00"]),
    # both day fields restricted: either; one that begins with *: both
    ("0 0 13 * FRI", ["01-03 00:00", "01-10 00:00", "01-13 00:00", "01-17 00:00"]),
    ("0 0 */2 * MON", ["01-13 00:00", "01-27 00:00", "02-03 00:00"]),
    ("0 0 13 * */5", ["04-13 00:00", "06-13 00:00", "07-13 00:00"]),
    ("0 0 ? * MON", ["01-06 00:00", "01-13 00:00"]),
    # six fields
    ("15,45 0 2 * * *", ["01-01 02:00:15", "01-01 02:00:45", "01-02 02:00:15"]),
    ("*/20 59 23 31 12 ?", ["12-31 23:59", "12-31 23:59:20", "12-31 23:59:40", "2026-12-31 23:59"]),
]


@pytest.mark.parametrize(("expression", "expected"), CALENDAR)
def test_calendar_of_2025(expression: str, expected: list[str]) -> None:
    assert fires(expression, "UTC", "2025-01-01 00:00:00", len(expected)) == expected


CLOCK_CHANGES = [
    # New York, 9 March 2025: 02:00 EST (07:00 UTC) becomes 03:00
    ("30 2 * * *", "America/New_York", "2025-03-08 12:00", ["03-09 07:00", "03-10 06:30"]),
    ("0,30 2 * * *", "America/New_York", "2025-03-08 12:00", ["03-09 07:00", "03-10 06:00", "03-10 06:30"]),
    ("*/20 30 2 * * *", "America/New_York", "2025-03-08 12:00", ["03-09 07:00", "03-10 06:30"]),
    ("30 2,3 * * *", "America/New_York", "2025-03-08 12:00", ["03-09 07:00", "03-09 07:30", "03-10 06:30"]),
    ("0 2-3 * * *", "America/New_York", "2025-03-08 12:00", ["03-09 07:00", "03-10 06:00", "03-10 07:00"]),
    ("30 * * * *", "America/New_York", "2025-03-09 06:00", ["03-09 06:30", "03-09 07:30"]),
    ("*/30 2 * * *", "America/New_York", "2025-03-08 12:00", ["03-10 06:00", "03-10 06:30"]),
    # ... and 2 November 2025: 02:00 EDT (06:00 UTC) becomes 01:00
    ("30 1 * * *", "America/New_York", "2025-11-01 12:00", ["11-02 05:30", "11-03 06:30"]),
    ("0 2 * * *", "America/New_York", "2025-11-01 12:00", ["11-02 07:00", "11-03 07:00"]),
    ("30 * * * *", "America/New_York", "2025-11-02 05:00", ["11-02 05:30", "11-02 06:30", "11-02 07:30"]),
    ("*/30 1 * * *", "America/New_York", "2025-11-02 05:00", ["11-02 05:30", "11-02 06:00", "11-02 06:30"]),
    # Berlin, 30 March 2025: 02:00 CET (01:00 UTC) becomes 03:00; 26 October: 03:00 CEST (01:00 UTC) becomes 02:00
    ("0 0 2 * * *", "Europe/Berlin", "2025-03-29 12:00", ["03-30 01:00", "03-31 00:00"]),
    ("30 2 * * SUN", "Europe/Berlin", "2025-03-29 12:00", ["03-30 01:00", "04-06 00:30"]),
    ("30 15 2 * * *", "Europe/Berlin", "2025-10-25 12:00", ["10-26 00:15:30", "10-27 01:15:30"]),
    ("H H(2-2) * * *", "Europe/Berlin", "2025-03-29 12:00", ["03-30 01:00"]),
    # Lord Howe, 5 October 2025: 02:00 (+10:30) becomes 02:30 (+11); 6 April: 02:00 (+11) becomes 01:30
    ("15 2 * * *", "Australia/Lord_Howe", "2025-10-04 00:00", ["10-04 15:30", "10-05 15:15"]),
    ("30 2 * * *", "Australia/Lord_Howe", "2025-10-04 00:00", ["10-04 15:30", "10-05 15:30"]),
    ("45 1 * * *", "Australia/Lord_Howe", "2025-04-05 00:00", ["04-05 14:45", "04-06 15:15"]),
    ("*/15 * * * *", "Australia/Lord_Howe", "2025-04-05 14:40", ["04-05 14:45", "04-05 15:00", "04-05 15:15"]),
    # Chatham, 28 September 2025: 02:45 (+12:45) becomes 03:45; 6 April: 03:45 (+13:45) becomes 02:45
    ("0 3 * * *", "Pacific/Chatham", "2025-09-27 00:00", ["09-27 14:00", "09-28 13:15"]),
    ("0 3 * * *", "Pacific/Chatham", "2025-04-05 00:00", ["04-05 13:15", "04-06 14:15"]),
    # Santiago, 7 September 2025: 00:00 (-4) becomes 01:00; 6 April: 00:00 (-3) becomes 23:00 of the 5th
    ("0 0 * * *", "America/Santiago", "2025-09-06 12:00", ["09-07 04:00", "09-08 03:00"]),
    ("30 23 * * *", "America/Santiago", "2025-04-05 12:00", ["04-06 02:30", "04-07 03:30"]),
    ("0 0 * * *", "America/Santiago", "2025-04-05 12:00", ["04-06 04:00", "04-07 04:00"]),
    # Beirut, 30 March 2025 at 00:00 (+2); Cairo, 25 April 2025 at 00:00 (+2)
    ("@daily", "Asia/Beirut", "2025-03-29 12:00", ["03-29 22:00", "03-30 21:00"]),
    ("@daily", "Africa/Cairo", "2025-04-24 12:00", ["04-24 22:00", "04-25 21:00"]),
    # Apia had no 30 December 2011: at 24:00 of the 29th (-10), 10:00 UTC of the 30th, the 31st began (+14)
    ("0 12 * * *", "Pacific/Apia", "2011-12-29 00:00", ["12-29 22:00", "12-30 10:00", "12-30 22:00"]),
    ("0 0 * * *", "Pacific/Apia", "2011-12-29 00:00", ["12-29 10:00", "12-30 10:00", "12-31 10:00"]),
    ("0 12 30 * *", "Pacific/Apia", "2011-12-01 00:00", ["12-30 10:00", "2012-01-29 22:00"]),
    ("0 */12 * * *", "Pacific/Apia", "2011-12-29 12:00", ["12-29 22:00", "12-30 10:00", "12-30 22:00"]),
    # Dublin calls its winter the exception; Troll moves by two hours: 01:00 (+0) becomes 03:00 on 30 March 2025
    ("30 1 * * *", "Europe/Dublin", "2025-03-29 12:00", ["03-30 01:00", "03-31 00:30"]),
    ("30 1,2 * * *", "Antarctica/Troll", "2025-03-29 12:00", ["03-30 01:00", "03-30 23:30", "03-31 00:30"]),
    # New York kept local mean time, -4:56:02, until noon of 18 November 1883, which it had twice
    ("0 12 * * *", "America/New_York", "1883-11-16 00:00", ["11-16 16:56:02", "11-17 16:56:02", "11-18 16:56:02"]),
]


@pytest.mark.parametrize(("expression", "name", "after", "expected"), CLOCK_CHANGES)
def test_clock_change(expression: str, name: str, after: str, expected: list[str]) -> None:
    assert fires(expression, name, after, len(expected)) == expected


OPTIONS = [
    ("30 2 * * *", "America/New_York", "2025-03-08 12:00", "skip", "first", ["03-10 06:30"]),
    ("30 2,3 * * *", "America/New_York", "2025-03-08 12:00", "skip", "first", ["03-09 07:30", "03-10 06:30"]),
    ("0 2-3 * * *", "America/New_York", "2025-03-08 12:00", "skip", "first", ["03-09 07:00", "03-10 06:00"]),
    ("30 1 * * *", "America/New_York", "2025-11-01 12:00", "run", "both", ["11-02 05:30", "11-02 06:30"]),
    ("0 2 * * *", "America/New_York", "2025-11-01 12:00", "run", "both", ["11-02 07:00", "11-03 07:00"]),
    ("45 1 * * *", "Australia/Lord_Howe", "2025-04-05 00:00", "run", "both", ["04-05 14:45", "04-05 15:15"]),
    ("0 12 * * *", "Pacific/Apia", "2011-12-29 00:00", "skip", "first", ["12-29 22:00", "12-30 22:00"]),
    ("30 * * * *", "America/New_York", "2025-11-02 05:00", "skip", "both", ["11-02 05:30", "11-02 06:30"]),
]


@pytest.mark.parametrize(("expression", "name", "after", "dst_gap", "dst_overlap", "expected"), OPTIONS)
def test_clock_change_as_the_job_wants_it(
    expression: str, name: str, after: str, dst_gap: DstGap, dst_overlap: DstOverlap, expected: list[str]
) -> None:
    assert fires(expression, name, after, len(expected), dst_gap, dst_overlap) == expected


def test_every_second_is_every_real_second_through_a_clock_change() -> None:
    start = instant("2025-11-02 05:59:00")
    stream = cron.fires(cron.parse("* * * * * *"), zone.get("America/New_York"), start - 1)
    assert list(itertools.islice(stream, 7200)) == [start + second * 1_000_000 for second in range(7200)]


def test_2100_is_no_leap_year_but_2400_is() -> None:
    assert fires("0 0 29 2 *", "UTC", "2096-01-01 00:00:00", 2) == ["02-29 00:00", "2104-02-29 00:00"]
    assert fires("0 0 29 2 *", "UTC", "2396-03-01 00:00:00", 1) == ["2400-02-29 00:00"]


@pytest.mark.parametrize("name", ["UTC", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize(
    "expression", ["* * * * * *", "0 0 29 2 *", "30 2 29 2 1#5", "59 59 23 31W 12 5L", "15 3 L-28 2 *"]
)
def test_the_next_fire_is_found_within_10_ms(expression: str, name: str) -> None:
    """I21: CPU time, also if the fire is decades away. The best of three counts: other tests use this machine."""
    parsed, there, after = cron.parse(expression), zone.get(name), instant("2096-03-01 00:00:00")
    cron.next_fire(parsed, there, after)
    took = []
    for _ in range(3):
        began = time.thread_time()
        found = cron.next_fire(parsed, there, after)
        took.append(time.thread_time() - began)
        assert found is None or found > after
    assert min(took) < 0.010


def test_next_is_later_by_the_microsecond() -> None:
    """I21."""
    every_minute, utc, noon = cron.parse("* * * * *"), zone.get("UTC"), instant("2025-01-01 12:00:00")
    assert cron.next_fire(every_minute, utc, noon - 1) == noon
    assert cron.next_fire(every_minute, utc, noon) == noon + 60_000_000
    assert cron.next_fire(every_minute, utc, noon + 1) == noon + 60_000_000


@pytest.mark.parametrize("name", ["UTC", "America/New_York", "Pacific/Kiritimati", "Etc/GMT+12"])
def test_time_ends_before_the_year_10000(name: str) -> None:
    every_second, there = cron.parse("* * * * * *"), zone.get(name)
    end = instant("9999-12-30 00:00:00")
    assert cron.next_fire(every_second, there, end - 1_000_001) == end - 1_000_000
    for after in (end - 1_000_000, end - 1, end, end + 1, 10**30):
        assert cron.next_fire(every_second, there, after) is None
        assert list(cron.fires(every_second, there, after)) == []
    assert cron.next_fire(cron.parse("0 0 29 2 *"), there, instant("9996-03-01 00:00:00")) is None
    assert cron.next_fire(every_second, there, -(10**30)) == instant("0001-01-03 00:00:00")


def test_what_is_always_in_the_gap_and_skipped_never_fires() -> None:
    second_sunday_of_march = cron.parse("30 2 8-14 3 */7")
    now = instant("2025-01-01 00:00:00")
    assert cron.next_fire(second_sunday_of_march, zone.get("America/New_York"), now, dst_gap="skip") is None
    assert cron.next_fire(second_sunday_of_march, zone.get("America/New_York"), now) is not None


def spread_over(expression: str, field: str, jobs: int = 2000) -> set[int]:
    masks = [getattr(cron.parse(expression, spread=f"acme/job-{job}"), field) for job in range(jobs)]
    return {value for mask in masks for value in range(60) if mask >> value & 1}


def test_h_spreads_jobs_over_the_field() -> None:
    assert spread_over("H * * * *", "minutes") == set(range(60))
    assert spread_over("H(10-20) * * * *", "minutes") == set(range(10, 21))
    assert spread_over("0 H * * *", "hours") == set(range(24))
    assert spread_over("0 0 H * *", "days") == set(range(1, 29))
    assert spread_over("0 0 H(1-31) * *", "days") == set(range(1, 32))
    assert spread_over("0 0 1 H *", "months") == set(range(1, 13))
    assert spread_over("H 0 0 * * *", "seconds") == set(range(60))


def test_h_with_a_step_keeps_its_distance() -> None:
    for job in range(100):
        minutes = cron.parse("H/15 * * * *", spread=f"acme/job-{job}").minutes
        first = (minutes & -minutes).bit_length() - 1
        assert first < 15
        assert minutes == sum(1 << first + 15 * n for n in range(4))
        assert cron.parse("H(0-29)/10 * * * *", spread=f"acme/job-{job}").minutes.bit_count() == 3


def test_h_stays_the_same_over_releases() -> None:
    """A changed hash would move every such job of every user."""
    parsed = cron.parse("H H H H H H", spread="acme/nightly")
    masks = (parsed.seconds, parsed.minutes, parsed.hours, parsed.days, parsed.months, parsed.weekdays & 127)
    assert [mask.bit_length() - 1 for mask in masks] == [56, 3, 15, 20, 8, 2]
    assert cron.parse("H * * * *", spread="\ud800").minutes


def test_jobs_with_the_same_expression_share_one_object() -> None:
    assert cron.parse("5 4 * * *", spread="a") is cron.parse("5 4 * * *", spread="b")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Europe/Berlni", "did you mean 'Europe/Berlin'?"),
        ("europe/berlin", "did you mean 'Europe/Berlin'?"),
        ("Berlin", "did you mean 'Europe/Berlin'?"),
        ("new york", "did you mean 'America/New_York'?"),
        ("utc", "did you mean 'UTC'?"),
        ("", "use an IANA name"),
        ("Mars/Olympus_Mons", "there is no time zone 'Mars/Olympus_Mons'"),
        ("../../etc/passwd", "there is no time zone"),
        ("/etc/localtime", "there is no time zone"),
        ("Europe/../Europe/Berlin", "there is no time zone"),
        ("Europe", "there is no time zone"),
        ("Europe/Berlin\0", "there is no time zone"),
        ("\ud800", "there is no time zone"),
        ("x" * 100_000, "there is no time zone"),
    ],
)
def test_unknown_zone_is_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        zone.get(name)
    assert hint in caught.value.detail
    assert len(caught.value.detail) < 200


def test_zone_is_loaded_once_and_names_its_release() -> None:
    assert zone.get("Europe/Berlin") is zone.get("Europe/Berlin")
    assert zone.get("Europe/Berlin").offset_at(instant("2025-07-01 00:00:00")) == 7200
    assert zone.version()[:2] == "20"


@pytest.mark.parametrize(
    ("footer", "year", "expected"),
    [
        ("AAA-1BBB,J60/0,J365/23:30:15", 2024, ["2024-02-29 23:00:00", "2024-12-31 21:30:15"]),
        ("AAA3BBB1:30,59/-2,364/167", 2024, ["2024-02-29 01:00:00", "2025-01-06 00:30:00"]),
        ("<-03>3<-02>,M3.5.0/-1,M10.1.6/24", 2025, ["2025-03-30 02:00:00", "2025-10-05 02:00:00"]),
    ],
)
def test_rules_of_time_zone_files(footer: str, year: int, expected: list[str]) -> None:
    """Forms that today's files do not use, but tomorrow's may."""
    rule = zone._Rule.parse(footer)
    assert rule is not None
    assert [str(datetime.fromtimestamp(at, UTC))[:19] for at, _ in rule.changes(year)] == expected


def test_rule_of_permanent_summer_time_never_changes_the_clocks() -> None:
    """`XXX3YYY,0/0,J365/25` ends each summer at the instant at which the next one begins."""
    rule = zone._Rule.parse("XXX3YYY,0/0,J365/25")
    assert rule is not None
    changes = [change for year in range(2000, 2010) for change in rule.changes(year)]
    assert [offset for _, _, offset in zone.Zone("Summer", changes, -7200).spans(0)] == [-7200, -10800]


@pytest.mark.parametrize(("footer", "offset"), [("XXX3YYY,0/0,J365/25", -7200), ("XXX3YYY4,0/0,J365/23", -14400)])
def test_file_with_a_rule_and_no_change_on_record(footer: str, offset: int) -> None:
    """The rule then holds for all time; of two changes at one instant that of the later year wins."""
    header = b"TZif2" + bytes(15) + struct.pack(">6l", 0, 0, 0, 0, 1, 4)
    block = struct.pack(">lbb", -10800, 0, 0) + b"XXX\0"
    there = zone._read("Test", header + block + header + block + f"\n{footer}\n".encode())
    for year in ("0100", "1970", "2025", "2403", "9000"):
        for day in ("01-01 03:00:00", "07-01 00:00:00", "12-31 23:59:59"):
            assert there.offset_at(instant(f"{year}-{day}")) == offset
