"""I21: the cron engine agrees with a brute force over all zones, around all their clock changes, on all syntax.

`TIMEBALL_CRON_CASES=50000` widens the search; `python -m tests.properties.test_cron_oracle --cases N --seed S`
runs it alone and prints its progress. A failure names the case, which depends only on the seed and its number.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import TypeVar

import pytest
from croniter import croniter
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.cron_oracle import (
    MACROS,
    MONTHS,
    WEEKDAYS,
    Oracle,
    clock_changes,
    micros,
    moment,
    zone_info,
    zone_names,
)
from timeball.domain.errors import InvalidSchedule
from timeball.domain.schedule import cron, zone
from timeball.domain.schedule.fires import DstGap, DstOverlap
from timeball.domain.schedule.zone import Zone

T = TypeVar("T")

CASES = int(os.environ.get("TIMEBALL_CRON_CASES", "2000"))
CHUNKS = 8
SECOND = 1_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
NAMES = {"month": MONTHS, "day of week": WEEKDAYS}
LIMITS = {
    "second": (0, 59),
    "minute": (0, 59),
    "hour": (0, 23),
    "day of month": (1, 31),
    "month": (1, 12),
    "day of week": (0, 6),
}


def shares(of: Sequence[T], size: int) -> list[Sequence[T]]:
    """What many cheap cases are cut into: a test of its own for each would cost more than the case."""
    return [of[at : at + size] for at in range(0, len(of), size)]


def random_value(rng: random.Random, field: str, near: int) -> int:
    low, high = LIMITS[field]
    if rng.random() < 0.6:
        return min(max(near + rng.randint(-1, 1), low), high)
    return rng.randint(low, high)


def random_spelling(rng: random.Random, field: str, value: int) -> str:
    if field in NAMES and rng.random() < 0.4:
        name = NAMES[field][value % 7 if field == "day of week" else value]
        return rng.choice((name, name.upper(), name.title()))
    return rng.choice(("{}", "{}", "{}", "{:02}")).format(value)


def random_range(rng: random.Random, field: str, near: int) -> tuple[int, int]:
    low, high = sorted((random_value(rng, field, near), random_value(rng, field, near)))
    if field == "day of week" and low > 0 and rng.random() < 0.2:
        high = 7
    return low, high


def random_item(rng: random.Random, field: str, near: int) -> str:
    low, high = LIMITS[field]
    form = rng.choice(("value", "value", "value", "range", "range/", "*/", "value/", "H", "special"))
    step = rng.randint(1, min(high - low + 1, 20))
    if form == "range" or form == "range/":
        first, last = random_range(rng, field, near)
        end = random_spelling(rng, field, last)
        text = f"{random_spelling(rng, field, first)}-{end}"
        return f"{text}/{step}" if form == "range/" else text
    if form == "*/":
        return f"*/{step}"
    value = random_value(rng, field, near)
    if form == "value/":
        return f"{random_spelling(rng, field, value)}/{step}"
    if form == "H":
        first, last = random_range(rng, field, near)
        within = f"h({first}-{last})" if rng.random() < 0.3 else f"H({first}-{last})"
        return rng.choice(("H", f"H/{step}", within, f"{within}/{rng.randint(1, last - first + 1)}"))
    if form == "special" and field == "day of month":
        return rng.choice(("L", "l", "LW", f"L-{rng.randint(0, 30)}", f"{value}W", f"{value}w"))
    if form == "special" and field == "day of week":
        day = random_spelling(rng, field, rng.choice((value, value, 7)))
        return rng.choice((f"{day}L", f"{day}#{rng.randint(1, 5)}"))
    return random_spelling(rng, field, value)


def random_field(rng: random.Random, field: str, near: int, star: float) -> str:
    if rng.random() < star:
        return "?" if field.startswith("day") and rng.random() < 0.2 else "*"
    items = [random_item(rng, field, near) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    if rng.random() < 0.03:
        items.insert(rng.randint(0, len(items)), "*")
    return ",".join(items)


def random_expression(rng: random.Random, local: datetime) -> str:
    """Any syntax, but rather about the days and hours around `local`, where the clocks change."""
    if rng.random() < 0.03:
        return rng.choice([*MACROS, "@Daily", "@HOURLY"])
    weekday = local.isoweekday() % 7
    fields = [
        random_field(rng, "minute", local.minute, star=0.15),
        random_field(rng, "hour", local.hour, star=0.35),
        random_field(rng, "day of month", local.day, star=0.65),
        random_field(rng, "month", local.month, star=0.75),
        random_field(rng, "day of week", weekday, star=0.65),
    ]
    if rng.random() < 0.3:
        fields.insert(0, random_field(rng, "second", local.second, star=0.03))
    return rng.choice((" ", " ", "  ", "\t")).join(fields)


def matches_some_day(oracle: Oracle) -> bool:
    """Whether any day matches. Every kind of year (seven first days, leap or not) is among these 28."""
    return any(oracle.matches_day(date(2000, 1, 1) + timedelta(days=day)) for day in range(28 * 366))


def check_case(seed: int, number: int) -> int:
    """One random case; the number of fires it compared."""
    rng = random.Random(f"{seed}/{number // 4}")
    name = rng.choice(zone_names())
    changes = clock_changes(name)
    centre = rng.choice(changes) if changes and rng.random() < 0.9 else rng.randint(-4_000_000, 8_000_000) * HOUR
    rng = random.Random(f"{seed}/{number}")

    local = moment(centre + rng.choice((-1, 0, 0, 1)) * SECOND).astimezone(zone_info(name))
    spread = rng.choice(("", "acme/nightly", "größe/ночь"))
    oracle = Oracle(random_expression(rng, local), spread)
    while oracle.per_day() > rng.choice((300, 300, 300, 1500)):
        oracle = Oracle(random_expression(rng, local), spread)
    dst_gap: DstGap = rng.choice(("run", "run", "skip"))
    dst_overlap: DstOverlap = rng.choice(("first", "first", "both"))
    reach = 2 * DAY if oracle.per_day() < 100 else DAY // 4
    after = centre - rng.randint(0, reach) + rng.choice((0, 0, 1, -1, 999_999))
    until = centre + rng.randint(0, reach)
    case = f"case {seed}/{number}: {oracle.expression!r} in {name}, {after=}, {until=}, {dst_gap=}, {dst_overlap=}"

    try:
        parsed = cron.parse(oracle.expression, spread=spread)
    except InvalidSchedule as error:
        if "never fires" not in error.detail or matches_some_day(oracle):
            pytest.fail(f"{case} was refused: {error.detail}")
        return 0

    there = zone.get(name)
    expected = oracle.fires(zone_info(name), after, until, dst_gap, dst_overlap)
    stream = cron.fires(parsed, there, after, dst_gap=dst_gap, dst_overlap=dst_overlap)
    actual = list(itertools.takewhile(lambda fire: fire <= until, stream))
    assert actual == expected, f"{case}: {different(actual, expected)}"

    starts = [after, rng.randint(after, max(after, until))]
    for fire in rng.sample(expected, min(3, len(expected))):
        starts += [fire - 1, fire, fire + 1, fire - rng.randint(1, DAY)]
    for start in starts:
        found = cron.next_fire(parsed, there, start, dst_gap=dst_gap, dst_overlap=dst_overlap)
        assert found is None or found > start, f"{case}: next_fire({start}) = {found}"
        if start >= after:
            later = next((fire for fire in expected if fire > start), None)
            if later is not None:
                assert found == later, f"{case}: next_fire({start}) = {found}, not {later}"
            else:
                assert found is None or found > until, f"{case}: next_fire({start}) = {found}"
    check_next_after_window(case, oracle, parsed, name, until, dst_gap, dst_overlap)
    return len(expected)


def check_next_after_window(
    case: str, oracle: Oracle, parsed: cron.Cron, name: str, until: int, dst_gap: DstGap, dst_overlap: DstOverlap
) -> None:
    """The fire after the window, which may be years away, is one; and the month before it has none."""
    found = cron.next_fire(parsed, zone.get(name), until, dst_gap=dst_gap, dst_overlap=dst_overlap)
    if found is not None and moment(found).year < 9990:
        begin = max(until, found - 31 * DAY)
        fires = oracle.fires(zone_info(name), begin, found, dst_gap, dst_overlap)
        assert fires == [found], f"{case}: the next after that is {fires[0]}, not {found}"


def different(actual: list[int], expected: list[int]) -> str:
    missing = [str(moment(fire)) for fire in sorted({*expected} - {*actual})[:3]]
    extra = [str(moment(fire)) for fire in sorted({*actual} - {*expected})[:3]]
    return f"missing {missing}, too many {extra}" if missing or extra else "wrong order, or doubled"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_engine_agrees_with_brute_force_around_clock_changes(chunk: int) -> None:
    started = time.monotonic()
    share = CASES // CHUNKS
    compared = sum(check_case(1, number) for number in range(chunk * share, (chunk + 1) * share))
    print(f"chunk {chunk}: {share} cases, {compared} fires equal, {time.monotonic() - started:.1f} s")
    assert compared > share, "the cases must not be trivial"


@pytest.mark.parametrize(
    "expression", ["0 0 29 2 *", "30 2 29 2 1#5", "0 0 29 2 */7", "15 3 L-28 2 *", "0 12 31W 12 ?"]
)
@pytest.mark.parametrize("name", ["UTC", "America/New_York", "Australia/Lord_Howe"])
def test_rare_fires_agree_over_decades(expression: str, name: str) -> None:
    after, until = (micros(datetime(year, 1, 1, tzinfo=UTC)) for year in (2084, 2109))
    oracle = Oracle(expression)
    stream = cron.fires(cron.parse(expression), zone.get(name), after)
    actual = list(itertools.takewhile(lambda fire: fire <= until, stream))
    assert actual == oracle.fires(zone_info(name), after, until, "run", "first")


@pytest.mark.parametrize("seeds", shares(range(200), 25), ids=str)
def test_days_agree_over_whole_years(seeds: range) -> None:
    """Edges of months (`1W`, `31W`, `LW`, `L-30`, `5L`, `#5`) are rare around clock changes, so here alone."""
    for seed in seeds:
        check_whole_years(seed)


def check_whole_years(seed: int) -> None:
    rng = random.Random(seed)
    some_day = datetime(2000 + seed, rng.randint(1, 12), rng.choice((1, 2, 3, 15, 28)))
    items = [rng.choice((random_item(rng, "day of month", some_day.day), "1W", "28W", "30W", "31W", "LW"))]
    weekday = random_field(rng, "day of week", rng.randint(0, 6), star=0.5)
    oracle = Oracle(f"0 0 {','.join(items)} * {weekday}")
    first = date(some_day.year, 1, 1)
    days = [first + timedelta(days=number) for number in range(2 * 365)]
    try:
        parsed = cron.parse(oracle.expression)
    except InvalidSchedule:
        assert not matches_some_day(oracle)
        return
    until = micros(datetime(*days[-1].timetuple()[:3], tzinfo=UTC))
    stream = cron.fires(parsed, zone.get("UTC"), micros(datetime(first.year, 1, 1, tzinfo=UTC)) - 1)
    actual = [moment(fire).date() for fire in itertools.takewhile(lambda fire: fire <= until, stream)]
    assert actual == [day for day in days if oracle.matches_day(day)], oracle.expression


def plain_expression(rng: random.Random) -> str:
    """What croniter and cronsim understand too, and mean alike.

    Not `2-2`, which is 2: croniter takes it for the whole field, and cronsim takes `2-2/5` for `2/5`.
    """

    def field(low: int, high: int, star: float) -> str:
        if rng.random() < star:
            return "*"
        first, last = sorted(rng.sample(range(low, high + 1), k=2))
        forms = (f"{first}", f"{first},{last}", f"{first}-{last}", f"{first}-{last}/{rng.randint(1, 5)}")
        return rng.choice(forms)

    minute = rng.choice((field(0, 59, 0.2), f"*/{rng.randint(1, 30)}"))
    return " ".join((minute, field(0, 23, 0.4), field(1, 28, 0.6), field(1, 12, 0.6), field(0, 6, 0.6)))


@pytest.mark.parametrize("seeds", shares(range(400), 50), ids=str)
def test_engine_agrees_with_croniter_and_cronsim_in_utc(seeds: range) -> None:
    for seed in seeds:
        check_against_others(seed)


def check_against_others(seed: int) -> None:
    rng = random.Random(seed)
    expression = plain_expression(rng)
    start = datetime(1990, 1, 1) + timedelta(seconds=rng.randint(0, 50 * 365 * 86_400))
    after = micros(start.replace(tzinfo=UTC))
    ours = [
        moment(fire).replace(tzinfo=None)
        for fire in itertools.islice(cron.fires(cron.parse(expression), zone.get("UTC"), after), 8)
    ]
    assert ours == list(itertools.islice(CronSim(expression, start), 8)), f"{expression!r} after {start}"
    other = croniter(expression, start)
    assert ours == [other.get_next(datetime) for _ in range(8)], f"{expression!r} after {start}"


@cache
def hostile_zone(seed: int) -> tuple[Zone, list[tuple[int, int]]]:
    """Clocks that change every few minutes to hours, by up to 26 hours: gaps and repeats that meet."""
    rng = random.Random(seed)
    instant, changes = 0, []
    for _ in range(rng.randint(2, 6)):
        instant += rng.choice((10, 45, 60, 180, 1500)) * 60
        changes.append((instant, rng.randint(-52, 52) * 900))
    return Zone("Hostile", changes, 0), changes


@pytest.mark.parametrize("seeds", shares(range(150), 25), ids=str)
def test_clock_changes_that_meet_are_what_a_daemon_would_see(seeds: range) -> None:
    for seed in seeds:
        check_hostile_zone(seed)


def check_hostile_zone(seed: int) -> None:
    """Against a daemon that wakes every minute, looks at the wall clock and remembers the latest it saw."""
    there, changes = hostile_zone(seed)
    rng = random.Random(seed)
    expression = rng.choice(
        ("30 * * * *", "*/15 * * * *", "15,45 1-20/3 * * *", "0 H * * *", "0 0 * * *", "7 */6 * * *")
    )
    dst_gap: DstGap = rng.choice(("run", "skip"))
    dst_overlap: DstOverlap = rng.choice(("first", "both"))
    oracle, parsed = Oracle(expression), cron.parse(expression)

    def matches(wall: int) -> bool:
        shown = moment(wall * SECOND)
        return shown.hour in oracle.hours and shown.minute in oracle.minutes

    expected, mark, until = [], -DAY // SECOND, changes[-1][0] + 4 * DAY // SECOND
    for instant in range(-DAY // SECOND, until, 60):
        wall = instant + next((offset for at, offset in reversed(changes) if at <= instant), 0)
        if not oracle.is_fixed:
            due = matches(wall)
        elif wall >= mark:
            due = any(matches(passed) for passed in range(mark if dst_gap == "run" else wall, wall + 60, 60))
            mark = wall + 60
        else:
            due = dst_overlap == "both" and matches(wall)
        if due:
            expected.append(instant * SECOND)

    begin = -DAY - 1
    stream = cron.fires(parsed, there, begin, dst_gap=dst_gap, dst_overlap=dst_overlap)
    assert list(itertools.takewhile(lambda fire: fire < until * SECOND, stream)) == expected, f"seed {seed}"
    for start in rng.sample(range(begin, expected[-1]), 20):
        found = cron.next_fire(parsed, there, start, dst_gap=dst_gap, dst_overlap=dst_overlap)
        assert found == next(fire for fire in expected if fire > start), f"seed {seed}"


@pytest.mark.parametrize("names", shares(zone_names(), 60), ids=lambda names: f"{names[0]} to {names[-1]}")
def test_every_zone_has_the_offsets_of_zoneinfo(names: Sequence[str]) -> None:
    for name in names:
        check_offsets(name)


def check_offsets(name: str) -> None:
    rng = random.Random(name)
    edges = [change + second * SECOND for change in clock_changes(name) for second in (-1, 0, 1)]
    for instant in edges + [rng.randint(-60_000_000, 250_000_000) * 1000 * SECOND for _ in range(50)]:
        offset = moment(instant).astimezone(zone_info(name)).utcoffset()
        assert timedelta(seconds=zone.get(name).offset_at(instant)) == offset, f"{name} at {moment(instant)}"


ODD_TEXT = st.text(st.sampled_from("0123456789*/,-?LWH#@ ()ABJNMONSUNFEB\t\n٣é"), max_size=40) | st.text(max_size=300)


@given(ODD_TEXT | st.lists(ODD_TEXT, min_size=5, max_size=6).map(" ".join), st.integers(-(10**19), 10**19))
def test_any_text_is_a_schedule_or_a_reason(text: str, after: int) -> None:
    try:
        parsed = cron.parse(text, spread=text)
    except InvalidSchedule:
        return
    found = cron.next_fire(parsed, zone.get("America/New_York"), after)
    assert found is None or found > after


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--cases", type=int, default=50_000)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    started, compared = time.monotonic(), 0
    for number in range(options.cases):
        compared += check_case(options.seed, number)
        if number % 1000 == 999:
            print(f"{number + 1} cases, {compared} fires, {time.monotonic() - started:.0f} s", flush=True)
    print(f"0 differences in {options.cases} cases, {compared} fires compared, seed {options.seed}")


if __name__ == "__main__":
    main()
