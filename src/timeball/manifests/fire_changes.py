"""The effect of a change on the next fires: which move, which are added, which are dropped.

A fire that is replaced by another one on the same day has moved. If a day has another number of fires than before, it
is not possible to say which fire moved where; then the old ones count as dropped and the new ones as added. There is
one exception: if all such days together have as many old fires as new ones, and the two of each pair are at most 36
hours apart, these fires have moved to another day.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from timeball.domain.instant import DAY, HOUR, SECOND, Micros, to_datetime
from timeball.domain.schedule import zone
from timeball.manifests.fires import ComingFires

DAYS: Final = 7
MAX_COMPARED_FIRES: Final = 1_000
"""Maximum number of fires that are compared."""
_FEW: Final = 10
"""Maximum number of added and dropped fires that are described one by one."""
_NEAR_DAYS: Final = ("today", "tomorrow")
_NEAR: Final = 36 * HOUR
"""Maximum distance, in microseconds, by which a fire may move to another day and still count as the same fire."""


@dataclass(frozen=True, slots=True)
class FireChanges:
    now: Micros
    until: Micros
    """The end of the range that was compared."""
    timezone: str
    moved: tuple[tuple[Micros, Micros], ...] = ()
    added: tuple[Micros, ...] = ()
    dropped: tuple[Micros, ...] = ()
    kept: int = 0

    @property
    def nothing(self) -> bool:
        return not (self.moved or self.added or self.dropped)

    def __str__(self) -> str:
        """Return a text such as `tomorrow's fire moves from 02:00 to 03:00, and 6 more until Sun 22 Nov; none is
        dropped`."""
        if self.nothing:
            return f"no fire {self._until} is moved, added or dropped"
        if self.added and self.dropped and len(self.added) + len(self.dropped) > _FEW:
            return self._different_interval()
        parts = []
        if self.moved:
            parts.append(self._moves())
        if self.added:
            parts.append(self._counted_fires(self.added, "is added", "are added"))
        parts.append(
            self._counted_fires(self.dropped, "is dropped", "are dropped") if self.dropped else "none is dropped"
        )
        return "; ".join(parts)

    @property
    def _until(self) -> str:
        return f"until {self._day(self.until - 1)}"

    def _different_interval(self) -> str:
        """Return a text such as `512 fires until Sun 22 Nov instead of 683; the first new one is today at 21:27 UTC,
        …`."""
        unmoved = self.kept + len(self.moved)
        counts = f"{unmoved + len(self.added):,} fires {self._until} instead of {unmoved + len(self.dropped):,}"
        first, instead = (first_fire(fires[0], self.now, self.timezone) for fires in (self.added, self.dropped))
        return f"{counts}; the first new one is {first}, the first dropped one {instead}"

    def _moves(self) -> str:
        old, new = self.moved[0]
        same_day = self._day(old) == self._day(new)
        if same_day:
            first = f"{self._days(old)} fire moves from {self._clock(old)} to {self._clock(new)}"
        else:
            first = f"{self._days(old)} fire at {self._clock(old)} moves to {self._day(new)} at {self._clock(new)}"
        more = len(self.moved) - 1
        return f"{first}, and {more:,} more {'moves' if more == 1 else 'move'} {self._until}" if more else first

    def _counted_fires(self, fires: Sequence[Micros], one: str, many: str) -> str:
        first = f"{self._days(fires[0])} fire at {self._clock(fires[0])} {one}"
        if len(fires) == 1:
            return first
        return f"{first}, {len(fires):,} {many} {self._until}"

    def _days(self, at: Micros) -> str:
        """Return the day of a fire in the form that comes before "fire": `tomorrow's`, `the Wed 18 Nov`."""
        day = self._day(at)
        return f"{day}'s" if day in _NEAR_DAYS else f"the {day}"

    def _day(self, at: Micros) -> str:
        return day_of(at, self.now, self.timezone)

    def _clock(self, at: Micros) -> str:
        return clock(at, self.timezone)


def compare(old: ComingFires, new: ComingFires, now: Micros, timezone: str) -> FireChanges:
    """Compare the next fires before and after a change."""
    until = _until(old, new, now, timezone)
    before, after = ({at for at in ahead.fires if at < until} for ahead in (old, new))
    gone, come = sorted(before - after), sorted(after - before)
    moved, gone, come = _pair_days(gone, come, timezone)
    if len(gone) == len(come) and all(abs(a - b) <= _NEAR for a, b in zip(gone, come, strict=True)):
        moved, gone, come = sorted([*moved, *zip(gone, come, strict=True)]), [], []
    return FireChanges(now, until, timezone, tuple(moved), tuple(come), tuple(gone), len(before & after))


def _until(old: ComingFires, new: ComingFires, now: Micros, timezone: str) -> Micros:
    """Return the end of the range to compare: the end of the last of `DAYS` days, so that a fire and the one that
    replaces it on the same day are both in the range; earlier if the fires are not known for so long.
    """
    far = now + DAYS * DAY
    end = min([far, *(ahead.until for ahead in (old, new) if ahead.until is not None)])
    midnight = end - _wall(end, timezone) % DAY
    if end == far:
        return midnight + DAY
    return midnight if midnight > now else end


def _pair_days(
    gone: list[Micros], come: list[Micros], timezone: str
) -> tuple[list[tuple[Micros, Micros]], list[Micros], list[Micros]]:
    days: defaultdict[int, tuple[list[Micros], list[Micros]]] = defaultdict(lambda: ([], []))
    for at in gone:
        days[local_day(at, timezone)][0].append(at)
    for at in come:
        days[local_day(at, timezone)][1].append(at)
    moved: list[tuple[Micros, Micros]] = []
    left: tuple[list[Micros], list[Micros]] = ([], [])
    for _, (old, new) in sorted(days.items()):
        if len(old) == len(new):
            moved += zip(old, new, strict=True)
        else:
            left[0].extend(old)
            left[1].extend(new)
    return moved, *left


def local_day(at: Micros, timezone: str) -> int:
    return _wall(at, timezone) // DAY


def _wall(at: Micros, timezone: str) -> Micros:
    """Return the local time of an instant as if it were UTC."""
    return at + zone.get(timezone).offset_at(at) * SECOND


def first_fire(at: Micros, now: Micros, timezone: str) -> str:
    """Return the time of a fire, such as `tomorrow at 02:00` or `on Wed 18 Nov at 02:00 UTC`."""
    day = day_of(at, now, timezone)
    return f"{day if day in _NEAR_DAYS else f'on {day}'} at {clock(at, timezone)}"


def day_of(at: Micros, now: Micros, timezone: str) -> str:
    """Return the day of a fire: `today`, `tomorrow`, `Wed 18 Nov`; with the year if it is not the current one."""
    ahead = local_day(at, timezone) - local_day(now, timezone)
    if ahead in (0, 1):
        return _NEAR_DAYS[ahead]
    there, here = to_datetime(_wall(at, timezone)), to_datetime(_wall(now, timezone))
    day = f"{there:%a} {there.day} {there:%b}"
    return day if there.year == here.year else f"{day} {there.year}"


def clock(at: Micros, timezone: str) -> str:
    time = to_datetime(_wall(at, timezone))
    text = f"{time:%H:%M:%S}" if time.second else f"{time:%H:%M}"
    return f"{text} UTC" if timezone == "UTC" else text
