"""When the calendars of a job are closed, and until when: in bounded time for each question.

What is closed without a break, by any entry of any of the calendars, is one *closure*. Its end is sought over a bounded
amount of work (`END_WORK`). A closure whose end lies further away has an end that is not `sure`: it is closed until
then at least, and that is where to look again. What was found stays known, so that looking again gets further.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from timeball.domain import instant
from timeball.domain.instant import Micros
from timeball.domain.schedule.calendar import NamedCalendar
from timeball.domain.schedule.calendar_timeline import Page, Timeline, timeline

END_WORK: Final = 2_000
"""Units of work (about 3 microseconds each) after which the search for the end of a closure pauses."""
OPENING_WORK: Final = 100_000
"""Units of work after which calendars count as never open."""
MAX_BLOCKS: Final = 8
"""Closures that are remembered for each combination of calendars."""
MAX_COMBINATIONS: Final = 1_024


class Closure(Struct, frozen=True):
    """Why an instant is closed, and until when it stays so."""

    calendar: str
    entry: str
    end: Micros
    """The first open instant, if that is sure."""
    sure: bool = True
    """False: it is closed until `end`, and may be closed then, too."""

    @property
    def reason(self) -> str:
        return f"excluded by calendar {self.calendar!r}: {self.entry}"


class _Block(Struct, frozen=True, gc=False):
    """Time that is closed without a break."""

    since: Micros
    until: Micros
    sure: bool


_UNKNOWN: Final = _Block(0, 0, sure=True)


class _Memory:
    """The closures that were found for a combination of calendars, the latest first."""

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
    """When the calendars of a job are closed."""

    __slots__ = ("_answer", "_lines", "_memory", "_names", "_pages", "changed_at", "versions", "work")

    def __init__(self, calendars: Sequence[NamedCalendar] = ()) -> None:
        self._names = [each.name for each in calendars]
        self._lines = tuple(timeline(each.calendar) for each in calendars)
        self._pages: list[Page | None] = [None] * len(self._lines)
        self._memory = _memory(self._lines)
        self.changed_at = max((each.updated_at for each in calendars), default=0)
        """Since when they are as they are."""
        self.versions = tuple((each.tenant, each.name, each.version) for each in calendars)
        self.work = 0
        """What answers have cost so far, in units of about 3 microseconds."""
        # The last answer, with the stretch of time for which it holds.
        self._answer: tuple[Micros, Micros, Closure | None] = (0, 0, None)

    def at(self, moment: Micros) -> Closure | None:
        """The closure that an instant is in; None: it is open. Names the first entry that says so."""
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
        """The first open instant at or after a moment, as far as it is sought."""
        closure = self.at(moment)
        return moment if closure is None else closure.end

    def seek_opening(self, moment: Micros) -> Iterator[Micros | None]:
        """The first open instant at or after a moment, after None for each pause of a longer search. It ends without
        one if none is found."""
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
        """The closure that a closed instant is in, as far as it is sought."""
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

    def _page(self, number: int, moment: Micros) -> Page:
        page = self._pages[number]
        if page is None or not page.since <= moment < page.until:
            page = self._pages[number] = self._lines[number].page(moment)
            self.work += page.charge()
        return page


OPEN: Final = Closures()
"""Without calendars everything is."""
