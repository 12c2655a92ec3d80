"""Windows: a slot is a fixed time of day, and slots are spread over the free minutes."""

from collections import Counter
from itertools import islice, pairwise
from typing import Any

import msgspec
import pytest

from timeball.domain import instant
from timeball.domain.instant import render
from timeball.domain.schedule import schedule
from timeball.domain.schedule.schedule import SLOT, Schedule, Window
from timeball.domain.schedule.window_slots import Board, minute_of, minutes_of
from timeball.domain.text.schedule_text import describe


def window(since: str, until: str, **rest: Any) -> Window:
    return msgspec.convert({"type": "window", "from": since, "to": until, **rest}, Schedule)  # type: ignore[no-any-return]


def fires(of: Window, slot: str, after: str, count: int) -> list[str]:
    hour, minute, second = map(int, slot.split(":"))
    spread = f"{SLOT}{hour * 3600 + minute * 60 + second}"
    since = instant.parse(after)
    return [render(at) for at in islice(schedule.fires(of, since, since, spread), count)]


def test_a_slot_is_a_fixed_time_through_clock_changes() -> None:
    berlin = window("01:00", "05:00", timezone="Europe/Berlin")
    assert fires(berlin, "02:30:07", "2026-03-28T12:00:00Z", 2) == ["2026-03-29T01:00:00Z", "2026-03-30T00:30:07Z"]
    assert fires(berlin, "02:30:07", "2026-10-24T12:00:00Z", 2) == ["2026-10-25T00:30:07Z", "2026-10-26T01:30:07Z"]
    both = window("01:00", "05:00", timezone="Europe/Berlin", dstGap="skip", dstOverlap="both")
    assert fires(both, "02:30:07", "2026-03-28T12:00:00Z", 1) == ["2026-03-30T00:30:07Z"]
    assert fires(both, "02:30:07", "2026-10-24T12:00:00Z", 2) == ["2026-10-25T00:30:07Z", "2026-10-25T01:30:07Z"]


def test_days_are_those_on_which_a_window_begins() -> None:
    night = window("22:00", "02:00", days=["FRI", "SAT"])
    assert fires(night, "23:00:00", "2026-11-16T00:00:00Z", 3) == [
        "2026-11-20T23:00:00Z",
        "2026-11-21T23:00:00Z",
        "2026-11-27T23:00:00Z",
    ]
    assert fires(night, "01:00:00", "2026-11-16T00:00:00Z", 2) == ["2026-11-21T01:00:00Z", "2026-11-22T01:00:00Z"]


@pytest.mark.parametrize(
    ("since", "until", "complaint"),
    [("01:00", "01:00", "empty"), ("1", "2", "01:00"), ("25:00", "02:00", "time of day"), ("24:00", "00:00", "empty")],
)
def test_what_is_no_window(since: str, until: str, complaint: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=complaint):
        window(since, until)


def test_a_thousand_slots_are_spread_evenly() -> None:
    board, four_hours = Board({}), window("01:00", "05:00")
    taken = [board.take(four_hours) for _ in range(1_000)]
    assert all(3_600 <= slot < 5 * 3_600 for slot in taken)
    assert len(set(taken)) == 1_000
    by_minute = Counter(slot // 60 for slot in taken)
    assert len(by_minute) == 240
    assert set(by_minute.values()) == {4, 5}
    ordered = sorted(taken)
    assert max(later - slot for slot, later in pairwise(ordered)) <= 15
    quarters = Counter((slot - 3_600) // 3_600 for slot in taken[:10])
    assert max(quarters.values()) <= 3, "a few are far apart"


def test_over_midnight_and_in_other_zones() -> None:
    board = Board({})
    night = window("22:00", "02:00", timezone="Asia/Kolkata")
    taken = [board.take(night) for _ in range(240)]
    assert sorted({(slot - 22 * 3_600) % 86_400 for slot in taken}) == list(range(0, 4 * 3_600, 60))
    assert (
        {minute_of(night, slot) for slot in taken} == set(minutes_of(night)) == set(range(16 * 60 + 30, 20 * 60 + 30))
    )
    whole = window("00:00", "24:00")
    assert whole.length == 86_400
    slot = board.take(whole)
    assert minute_of(whole, slot) not in set(minutes_of(night)), "where the least is going on"


def test_a_short_window_and_a_crowded_one() -> None:
    board, short = Board({}), window("01:00:10", "01:00:20")
    taken = [board.take(short) for _ in range(30)]
    assert all(3_610 <= slot < 3_620 for slot in taken)
    assert set(Counter(taken).values()) <= {2, 3, 4}
    busy = Board(dict.fromkeys(range(60, 90), 10))
    assert all(5_400 <= busy.take(window("01:00", "02:00")) < 7_200 for _ in range(30))


def test_the_sentence_names_slot_and_window() -> None:
    night = window("22:00", "02:00", timezone="Europe/Berlin")
    assert describe(night, f"{SLOT}3675") == "At 01:01:15 every day (Europe/Berlin): its slot between 22:00 and 02:00"
    assert describe(night).endswith(": an example of a slot between 22:00 and 02:00")
