"""Any number of timers behind one timer of the event loop.

Timers of the event loop are rounded, and may fire half a millisecond early. So `_ring` reads the monotonic clock again,
and sets the timer once more for callbacks that are not due yet: a callback never runs before its microsecond.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

from timeball.domain.instant import SECOND, Micros
from timeball.ports.clock import Clock

MAX_TIMER_DELAY: Final = 3600 * SECOND
"""Maximum delay of the event loop's timer. Some event loops refuse more than a few weeks."""


NEVER: Final = 1 << 62
MANY: Final = 1_000
"""Cancelled timers stay in the heap. They are removed when there are more than this many and they are the majority."""


class Timer:
    """A timer. `call` is the callback, or None once it was cancelled or called."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call


class Timers:
    """Runs callbacks at instants of the monotonic clock, in order, never early."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[Micros, int, Timer]] = []
        self._count = 0
        self._cancelled = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due: Micros = NEVER

    def at(self, due: Micros, call: Callable[[], None]) -> Timer:
        alarm = Timer(call)
        self._count += 1
        heappush(self._heap, (due, self._count, alarm))
        if due < self._timer_due:
            self._arm(due)
        return alarm

    def cancel(self, alarm: Timer) -> None:
        if alarm.call is None:
            return
        alarm.call = None
        self._cancelled += 1
        if self._cancelled > MANY and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].call is not None]
            heapify(self._heap)
            self._cancelled = 0

    def clear(self) -> None:
        """Cancel all timers."""
        self._heap = []
        self._cancelled = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer_due = NEVER

    def _arm(self, due: Micros) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay = min(max(due - self._clock.monotonic(), 0), MAX_TIMER_DELAY)
        self._timer_due = due
        self._timer = asyncio.get_running_loop().call_later(delay / SECOND, self._ring)

    def _ring(self) -> None:
        self._timer_due = NEVER
        now = self._clock.monotonic()
        try:
            while self._heap and self._heap[0][0] <= now:
                alarm = heappop(self._heap)[2]
                call, alarm.call = alarm.call, None
                if call is None:
                    self._cancelled -= 1
                else:
                    call()
        finally:
            # The callbacks may have set new timers that are later than the first one in the heap.
            if self._heap and self._heap[0][0] < self._timer_due:
                self._arm(self._heap[0][0])
