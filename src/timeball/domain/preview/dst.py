"""Clock changes as a schedule meets them: the wall times that they leave out, and those that they repeat."""

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
"""Wall times that are named one by one."""

# A zone whose clocks never change: there, the fires of a rule are its wall times.
_WALL = Zone("wall", (), 0)
# No clock change moves anything by more than this.
_REACH = 3 * DAY


@dataclass(frozen=True, slots=True)
class ClockChange:
    """Everything in seconds; wall times as if they were UTC."""

    at: int
    """The instant."""
    shown: int
    """The wall time that clocks had come to before it."""
    shows: int
    """The wall time that they show at it."""

    @property
    def shift(self) -> int:
        """How far they were put forward; less than 0: back."""
        return self.shows - self.shown

    @property
    def day(self) -> int:
        """The day on which it is met, in days since the epoch."""
        return self.shows // DAY

    @property
    def date(self) -> str:
        return f"{to_datetime(self.day * DAY * SECOND):%Y-%m-%d}"

    def __str__(self) -> str:
        """`from 02:00 to 03:00`."""
        dated = self.shown // DAY != self.shows // DAY
        return f"from {self.clock(self.shown, dated=dated)} to {self.clock(self.shows, dated=dated)}"

    def clock(self, wall: int, *, dated: bool = False) -> str:
        """A wall time as it would be said of that day."""
        day, time = divmod(wall, DAY)
        return f"{to_datetime(wall * SECOND):%Y-%m-%d} {clock(time)}" if dated or day != self.day else clock(time)

    def clocks(self, walls: Iterable[int]) -> tuple[str, bool]:
        """Some wall times in words, and whether they are several."""
        named = [self.clock(wall) for wall in islice(walls, _MAX_TIMES + 1)]
        return listed([*named[:_MAX_TIMES], "more"] if len(named) > _MAX_TIMES else named), len(named) > 1

    def affected(self, rule: Cron) -> Iterator[int]:
        """The wall times of a rule that do not exist, or exist twice, because of it."""
        first, last = sorted((self.shown, self.shows))
        walls = cron.fires(rule, _WALL, first * SECOND - 1)
        return takewhile(lambda wall: wall < last, (wall // SECOND for wall in walls))


def clock_changes(place: Zone, start: int, end: int) -> list[ClockChange]:
    """Those between two instants (seconds), and those that may matter to a fire between them."""
    found: list[ClockChange] = []
    shown: int | None = None
    for begin, stop, offset in place.spans(start - 2 * _REACH):
        if begin > end + _REACH:
            break
        # As the engine does: from the latest that clocks have ever shown, should changes follow close on each other.
        if shown is not None and begin >= start - _REACH:
            found.append(ClockChange(begin, shown, begin + offset))
        shown = stop + offset if shown is None else max(shown, stop + offset)
    return found
