"""`timeball.next_fires`: aware datetimes, with the offset of the zone."""

from datetime import UTC, datetime, timedelta

import pytest

from timeball import Invalid, next_fires

MIDNIGHT = datetime(2026, 3, 28, tzinfo=UTC)


def test_fires_carry_the_offset_of_their_zone() -> None:
    fires = next_fires("30 2 * * *", "Europe/Berlin", MIDNIGHT, 3)
    assert [fire.isoformat() for fire in fires] == [
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]


def test_now_and_utc_are_the_defaults() -> None:
    fires = next_fires("* * * * *")
    assert len(fires) == 5
    assert all(fire.utcoffset() == timedelta() for fire in fires)
    assert fires[1] - fires[0] == timedelta(minutes=1)
    assert abs(fires[0] - datetime.now(UTC)) <= timedelta(minutes=1)


def test_what_means_nothing_is_refused_with_the_reason() -> None:
    with pytest.raises(Invalid, match="never fires"):
        next_fires("0 0 30 2 *")
    with pytest.raises(Invalid, match="did you mean 'Europe/Berlin'"):
        next_fires("0 0 * * *", "Europe/Berlni")
    with pytest.raises(Invalid, match="has no time zone"):
        next_fires("0 0 * * *", after=datetime(2026, 1, 1))
    with pytest.raises(Invalid, match="negative"):
        next_fires("0 0 * * *", count=-1)
