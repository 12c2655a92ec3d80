"""Fires are marked exactly where `zoneinfo` says that their wall time does not exist or occurs twice."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pytest

from tests.properties.cron_oracle import (
    Oracle,
    clock_changes,
    end_of_gap,
    instants_of,
    micros,
    moment,
    zone_info,
    zone_names,
)
from tests.properties.test_cron_oracle import random_expression
from timeball.domain.preview.preview import preview
from timeball.domain.schedule.fires import DstGap, DstOverlap
from timeball.domain.schedule.schedule import CronSchedule

HOUR = 3_600_000_000
SINCE = micros(datetime.fromisoformat("1975-01-01T00:00Z"))
UNTIL = micros(datetime.fromisoformat("2100-01-01T00:00Z"))


def recent_changes(name: str) -> list[int]:
    return [change for change in clock_changes(name) if SINCE < change < UNTIL]


def check_case(rng: random.Random, name: str) -> int:
    """The number of marks that were compared."""
    there, change = zone_info(name), rng.choice(recent_changes(name))
    local = moment(change + rng.randint(-1, 1)).astimezone(there)
    oracle = Oracle(random_expression(rng, local))
    while oracle.per_day() > 200:
        oracle = Oracle(random_expression(rng, local))
    dst_gap: DstGap = rng.choice(("run", "run", "skip"))
    dst_overlap: DstOverlap = rng.choice(("first", "first", "both"))
    case = f"{oracle.expression!r} in {name}, {change=}, {dst_gap=}, {dst_overlap=}"
    try:
        schedule = CronSchedule(oracle.expression, name, dst_gap, dst_overlap)
    except ValueError:
        return 0
    after = change - rng.randint(1, 30 * HOUR)
    fires = [fire for fire in preview(schedule, after, 500).fires if fire.at <= change + 30 * HOUR]
    expected = oracle.fires(there, after, change + 30 * HOUR, dst_gap, dst_overlap)
    assert [fire.at for fire in fires] == expected[: len(fires)], case

    moved = set()
    if oracle.is_fixed and dst_gap == "run":
        begin, end = (moment(limit).astimezone(there).replace(tzinfo=None) for limit in (after, change + 30 * HOUR))
        walls = oracle.walls(begin - timedelta(hours=3), end + timedelta(hours=3))
        moved = {end_of_gap(wall, there) for wall in walls if not instants_of(wall, there)}
    for fire in fires:
        wall = moment(fire.at).astimezone(there)
        assert fire.local.isoformat() == wall.isoformat(), case
        twice = instants_of(wall.replace(tzinfo=None, fold=0), there)
        if fire.at in moved:
            assert fire.mark == "dst_gap", f"{case}: {fire}"
        elif len(twice) == 2:
            assert fire.mark == "dst_overlap", f"{case}: {fire}"
            assert ("second" in fire.note) == (fire.at == twice[1]), f"{case}: {fire}"
            assert ("only" in fire.note) == (not {*twice} <= {*expected} and fire.at == twice[0]), f"{case}: {fire}"
        else:
            assert fire.mark is None, f"{case}: {fire}"
    return sum(fire.mark is not None for fire in fires)


@pytest.mark.parametrize("seed", range(8))
def test_marks_agree_with_zoneinfo_around_clock_changes(seed: int) -> None:
    rng = random.Random(seed)
    names = ("Europe/Berlin", "Australia/Lord_Howe", *rng.sample(zone_names(), 5))
    assert sum(check_case(rng, name) for name in names if recent_changes(name) for _ in range(20)) > 60
