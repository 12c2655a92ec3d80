"""Computes whether the calendars of a job are closed at an instant and when they open again, in bounded time per call.

Time that any entry of any of the calendars closes without a break is one *closure*. The search for the end of a closure
stops after a bounded amount of work (`END_WORK`). If it has not found the end by then, the closure is not `sure`: the
calendars are closed at least until `end`, and the caller continues the search from there. Partial results are cached,
so that a repeated search gets further.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from timeball.domain import instant
from timeball.domain.instant import Micros
from timeball.domain.schedule.calendar import NamedCalendar
from timeball.domain.schedule.calendar_timeline import ClosedPage, Timeline, timeline

END_WORK: Final = 2_000
"""Units of work (about 3 microseconds each) after which one search for the end of a closure stops."""
OPENING_WORK: Final = 100_000
"""Units of work (about 3 microseconds each) without an open instant after which `seek_opening` gives up: the calendars
count as never open."""
MAX_BLOCKS: Final = 8
"""Maximum number of cached closures for each combination of calendars."""
MAX_COMBINATIONS: Final = 1_024


class Closure(Struct, frozen=True):
    """The closure of an instant: the calendar and the entry that close it, and its end."""

    calendar: str
    entry: str
    end: Micros
    """The first open instant, if `sure`."""
    sure: bool = True
    """False if the search stopped early: the calendars are closed until `end`, and may be closed after it, too."""

    @property
    def reason(self) -> str:
        return f"excluded by calendar {self.calendar!r}: {self.entry}"


class _Block(Struct, frozen=True, gc=False):
    """A range of time that is closed without a break. `until` is its final end only if `sure`."""

    since: Micros
    until: Micros
    sure: bool


_UNKNOWN: Final = _Block(0, 0, sure=True)


class _Memory:
    """A cache of closed ranges (`_Block`) that were computed for one combination of calendars, the newest first."""

    __slots__ = ("blocks",)

    def __init__(self) -> None:
        self.blocks: tuple[_Block, ...] = ()

    def find(self, moment: Micros) -> _Block:
        for block in self.blocks:
            if block.since <= moment < block.until:
                return block
        return _UNKNOWN

    def keep(self, block: _Block, instead_of: _Block) -> None:
        others = [each for each in self.blocks if each is not instead_of]
        self.blocks = (block, *others[: MAX_BLOCKS - 1])


@lru_cache(maxsize=MAX_COMBINATIONS)
def _memory(timelines: tuple[Timeline, ...]) -> _Memory:
    return _Memory()


class Closures:
    """The combined closed times of all calendars of a job."""

    __slots__ = ("_answer", "_lines", "_memory", "_names", "_pages", "changed_at", "versions", "work")

    def __init__(self, calendars: Sequence[NamedCalendar] = ()) -> None:
        self._names = [each.name for each in calendars]
        self._lines = tuple(timeline(each.calendar) for each in calendars)
        self._pages: list[ClosedPage | None] = [None] * len(self._lines)
        self._memory = _memory(self._lines)
        self.changed_at = max((each.updated_at for each in calendars), default=0)
        """The instant of the last change of any of the calendars."""
        self.versions = tuple((each.tenant, each.name, each.version) for each in calendars)
        self.work = 0
        """Total cost of the calls so far, in units of about 3 microseconds."""
        # The last result of `at`, with the begin and the end of the time for which it is valid.
        self._answer: tuple[Micros, Micros, Closure | None] = (0, 0, None)

    def at(self, moment: Micros) -> Closure | None:
        """Return the closure that contains an instant; None if the instant is open. The closure names the first
        calendar that is closed at the instant, and one entry of it that covers the instant."""
        since, until, known = self._answer
        if since <= moment < until:
            return known
        found: Closure | None = None
        until = instant.MAX + 1
        for number, name in enumerate(self._names):
            page = self._page(number, moment)
            at = page.piece(moment)
            if at >= 0 and moment < page.ends[at]:
                block = self._block(moment)
                label = self._lines[number].label(page.owners[at], moment)
                found, until = Closure(name, label, block.until, block.sure), min(until, page.ends[at])
                break
            until = min(until, page.begins[at + 1] if at + 1 < len(page.begins) else page.until)
        self._answer = (moment, until, found)
        return found

    def opening(self, moment: Micros) -> Micros:
        """Return the first open instant at or after a moment. If the search stopped early, return the end of the part
        that is known to be closed."""
        closure = self.at(moment)
        return moment if closure is None else closure.end

    def seek_opening(self, moment: Micros) -> Iterator[Micros | None]:
        """Search for the first open instant at or after a moment. The iterator yields None after each bounded step, and
        the instant at the end. If none is found within `OPENING_WORK`, or before `instant.MAX`, it ends without one."""
        begun = self.work
        while (closure := self.at(moment)) is not None and closure.end < instant.MAX:
            moment = closure.end
            if closure.sure:
                break
            if self.work - begun > OPENING_WORK:
                return
            yield None
        else:
            if closure is not None:
                return
        yield moment

    def _block(self, moment: Micros) -> _Block:
        """Return the closure that contains a closed instant. Its end is not `sure` if the search stopped early."""
        known = self._memory.find(moment)
        if known.sure and known is not _UNKNOWN:
            return known
        since, end = (moment, moment) if known is _UNKNOWN else (known.since, known.until)
        limit = self.work + END_WORK
        sure = False
        while not sure and self.work <= limit:
            later = max(self._page(number, end).solid_until(end) for number in range(len(self._lines)))
            self.work += 1 + len(self._lines) // 4
            sure = later <= end or later >= instant.MAX
            end = min(later, instant.MAX)
        found = _Block(since, end, sure)
        self._memory.keep(found, known)
        return found

    def _page(self, number: int, moment: Micros) -> ClosedPage:
        page = self._pages[number]
        if page is None or not page.since <= moment < page.until:
            page = self._pages[number] = self._lines[number].page(moment)
            self.work += page.charge()
        return page


OPEN: Final = Closures()
"""The closed times of a job without calendars: every instant is open."""
