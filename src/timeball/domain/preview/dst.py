"""Clock changes and their effect on a schedule: the wall times that they skip, and those that they repeat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Final

from timeball.domain.instant import SECOND, to_datetime
from timeball.domain.schedule import cron
from timeball.domain.schedule.cron import Cron
from timeball.domain.schedule.zone import DAY, Zone
from timeball.domain.text.english import listed
from timeball.domain.text.schedule_text import clock

_MAX_TIMES: Final = 3
"""Maximum number of wall times that are listed one by one."""

# A zone whose clocks never change. In this zone, the fires of a cron rule are equal to its wall times.
_WALL = Zone("wall", (), 0)
# No clock change moves a fire by more than this.
_REACH = 3 * DAY


@dataclass(frozen=True, slots=True)
class ClockChange:
    """One clock change of a zone. All fields are in seconds; wall times are given as if they were UTC."""

    at: int
    """The instant of the change."""
    shown: int
    """The latest wall time that the clocks had reached before the change."""
    shows: int
    """The wall time that the clocks show at the change."""

    @property
    def shift(self) -> int:
        """The number of seconds by which the clocks go forward; negative if they go back."""
        return self.shows - self.shown

    @property
    def day(self) -> int:
        """The day of the change by the wall clock, in days since the epoch."""
        return self.shows // DAY

    @property
    def date(self) -> str:
        return f"{to_datetime(self.day * DAY * SECOND):%Y-%m-%d}"

    def __str__(self) -> str:
        """Return `from 02:00 to 03:00`, with dates if the days differ."""
        dated = self.shown // DAY != self.shows // DAY
        return f"from {self.clock(self.shown, dated=dated)} to {self.clock(self.shows, dated=dated)}"

    def clock(self, wall: int, *, dated: bool = False) -> str:
        """Return a wall time as text, with its date if it is not on the day of the change."""
        day, time = divmod(wall, DAY)
        return f"{to_datetime(wall * SECOND):%Y-%m-%d} {clock(time)}" if dated or day != self.day else clock(time)

    def clocks(self, walls: Iterable[int]) -> tuple[str, bool]:
        """Return the wall times as text, at most three of them and then `more`, and whether there are several."""
        named = [self.clock(wall) for wall in islice(walls, _MAX_TIMES + 1)]
        return listed([*named[:_MAX_TIMES], "more"] if len(named) > _MAX_TIMES else named), len(named) > 1

    def affected(self, rule: Cron) -> Iterator[int]:
        """Yield the wall times of a rule that do not exist, or occur twice, because of this change."""
        first, last = sorted((self.shown, self.shows))
        walls = cron.fires(rule, _WALL, first * SECOND - 1)
        return takewhile(lambda wall: wall < last, (wall // SECOND for wall in walls))


def clock_changes(place: Zone, start: int, end: int) -> list[ClockChange]:
    """Return the clock changes between two instants (in seconds), and those that may affect a fire between them."""
    found: list[ClockChange] = []
    shown: int | None = None
    for begin, stop, offset in place.spans(start - 2 * _REACH):
        if begin > end + _REACH:
            break
        # Like `fires.stretches`, count from the latest wall time that the clocks have ever shown, because two changes
        # may be close together.
        if shown is not None and begin >= start - _REACH:
            found.append(ClockChange(begin, shown, begin + offset))
        shown = stop + offset if shown is None else max(shown, stop + offset)
    return found
