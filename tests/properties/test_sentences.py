"""The sentence that describes a schedule is true, for any expression and zone."""

from __future__ import annotations

import itertools
import random
import re
from datetime import UTC, date, datetime, timedelta

import pytest

from tests.properties.cron_oracle import Oracle, clock_changes, micros, zone_names
from tests.properties.sentence_reader import read
from tests.properties.test_cron_oracle import LIMITS, random_expression, random_item
from timeball.domain import duration
from timeball.domain.errors import InvalidSchedule
from timeball.domain.schedule import cron, zone
from timeball.domain.schedule.fires import DstGap, DstOverlap
from timeball.domain.schedule.schedule import CronSchedule
from timeball.domain.text.schedule_text import describe

DAYS = [date(2023, 1, 1) + timedelta(days=number) for number in range(365 + 366)]
"""With a leap day."""
REACH = 3 * 3_600_000_000
EVERY = re.compile(r"Every (?:(\d+) )?(second|minute|hour)s?(?: \([^()]+\))?")


def check(expression: str, spread: str = "acme/nightly") -> None:
    try:
        cron.parse(expression, spread=spread)
    except InvalidSchedule:
        return
    sentence = describe(CronSchedule(expression), spread)
    said, oracle = read(sentence), Oracle(expression, spread)
    times = {
        hour * 3600 + minute * 60 + second
        for hour in oracle.hours
        for minute in oracle.minutes
        for second in oracle.seconds
    }
    assert said.times == times, f"{expression!r}: {sentence}"
    wrong = [day for day in DAYS if said.days(day) != oracle.matches_day(day)]
    assert not wrong, f"{expression!r}: {sentence}: wrong on {wrong[:3]}"


@pytest.mark.parametrize("seed", range(12))
def test_a_sentence_read_back_means_the_same(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        check(random_expression(rng, datetime(2024, rng.randint(1, 12), rng.randint(1, 28), rng.randint(0, 23))))


@pytest.mark.parametrize("seed", range(12))
def test_a_sentence_about_days_read_back_means_the_same(seed: int) -> None:
    """Both day fields and the month restricted in every way: rare among expressions about anything."""
    rng = random.Random(seed)
    for _ in range(20):
        day, month, weekday = (
            ",".join(random_item(rng, field, rng.randint(*LIMITS[field])) for _ in range(rng.choice((1, 1, 2, 4))))
            if rng.random() < 0.7
            else "*"
            for field in ("day of month", "month", "day of week")
        )
        check(f"0 0 {day} {month} {weekday}")


def rhythmic_expression(rng: random.Random) -> str:
    """Steps of minutes and seconds through the whole day, in their various spellings."""
    step = rng.choice((1, 2, 3, 4, 5, 6, 7, 10, 12, 15, 20, 25, 30))
    beat = rng.choice((f"*/{step}", f"0/{step}", f"0-59/{step}", f"{rng.randrange(step)}/{step}"))
    hours = rng.choice(("*", "*", "0-23", "*/1", "0/1"))
    return rng.choice((f"{beat} {hours} * * *", f"{beat} * {hours} * * *", f"{beat} {rng.randrange(60)} {hours} * * *"))


def check_rhythm(rng: random.Random) -> bool:
    """Whether it was said; if so, that it holds over every clock change of a decade."""
    name = rng.choice(("Australia/Lord_Howe", "Africa/Casablanca", "Europe/Berlin", rng.choice(zone_names())))
    dst_gap: DstGap = rng.choice(("run", "skip"))
    dst_overlap: DstOverlap = rng.choice(("first", "both"))
    expression = rhythmic_expression(rng)
    sentence = describe(CronSchedule(expression, name, dst_gap, dst_overlap))
    found = EVERY.fullmatch(sentence)
    if found is None:
        return False
    step = duration.parse(f"{found[1] or 1}{found[2][0]}")
    rule, place = cron.parse(expression), zone.get(name)
    begin, end = (micros(datetime(year, 1, 1, tzinfo=UTC)) for year in (2024, 2034))
    for change in [begin, *(change for change in clock_changes(name) if begin <= change < end)]:
        stream = cron.fires(rule, place, change - REACH, dst_gap=dst_gap, dst_overlap=dst_overlap)
        fires = list(itertools.takewhile(lambda fire, until=change + REACH: fire < until, stream))
        steps = {later - fire for fire, later in itertools.pairwise(fires)}
        assert steps == {step}, f"{expression!r} in {name}: {sentence}"
    return True


@pytest.mark.parametrize("seed", range(6))
def test_every_n_minutes_is_said_only_of_fires_that_are_equally_far_apart(seed: int) -> None:
    rng = random.Random(seed)
    assert sum(check_rhythm(rng) for _ in range(50)) > 10
