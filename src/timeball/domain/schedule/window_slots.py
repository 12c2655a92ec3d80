"""Chooses the slot of a job in its window: in the minute with the lowest load, in the middle of the largest gap.

Among minutes with equal load, those come first that halve the free time: 0, 1/2, 1/4, 3/4, ... of the window. A few
jobs are therefore far apart, and a thousand are spread evenly. The seconds of a minute are filled in the same order.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from timeball.domain import instant
from timeball.domain.instant import Micros
from timeball.domain.schedule import zone
from timeball.domain.schedule.schedule import Window

MINUTES = 1_440
REFERENCE: Micros = instant.parse("2026-01-15T00:00:00Z")
"""Minutes of different zones are compared by their offsets at this instant. It is a constant, so that the load that a
job added to a minute can be subtracted from the same minute later."""


def minute_of(window: Window, slot: int) -> int:
    """Return the minute of the day, in UTC at `REFERENCE`, in which a slot lies."""
    return (slot // 60 - _offset(window) // 60) % MINUTES


def minutes_of(window: Window) -> list[int]:
    """Return all minutes of the day, in UTC at `REFERENCE`, in which a slot of the window may lie."""
    first, last = window.begin // 60, (window.begin + window.length - 1) // 60
    return [(minute - _offset(window) // 60) % MINUTES for minute in range(first, last + 1)]


def clock_shift(window: Window, at: Micros) -> int:
    """Return the number of minutes to add to the minute of the day of the instant `at`, in UTC, to get the minute in
    which `Board` counts it. They differ if the zone has another offset at `at` than at `REFERENCE`."""
    return (zone.get(window.timezone).offset_at(at) - _offset(window)) // 60


def _offset(window: Window) -> int:
    return zone.get(window.timezone).offset_at(REFERENCE)


class Board:
    """The load of each minute of the day: the number of jobs that fire in it. `take` assigns slots and counts them."""

    def __init__(self, loads: Mapping[int, int]) -> None:
        self._loads = dict(loads)
        self._queues: dict[tuple[int, int, int], list[tuple[int, int, int]]] = {}

    def add(self, minute: int, jobs: int) -> None:
        """Add jobs to the load of a minute."""
        self._loads[minute] = self._loads.get(minute, 0) + jobs

    def take(self, window: Window) -> int:
        """Choose and count the slot of one more job. Return it as a second of the day on the clocks of the window's
        zone."""
        begin, length, offset = window.begin, window.length, _offset(window)
        key = (begin, length, offset)
        first, last = begin // 60, (begin + length - 1) // 60
        if key not in self._queues:
            bits = (last - first).bit_length()
            queue = [
                (self._load(first + place, offset), _reversed(place, bits), first + place)
                for place in range(last - first + 1)
            ]
            heapq.heapify(queue)
            self._queues[key] = queue
        queue = self._queues[key]
        while True:
            load, rank, minute = queue[0]
            current = self._load(minute, offset)
            if current == load:
                break
            heapq.heapreplace(queue, (current, rank, minute))  # the load grew since
        heapq.heapreplace(queue, (load + 1, rank, minute))
        self.add((minute - offset // 60) % MINUTES, 1)
        low, high = max(begin, minute * 60), min(begin + length, minute * 60 + 60)
        return (low + int(_halving(load) * (high - low))) % (MINUTES * 60)

    def _load(self, minute: int, offset: int) -> int:
        return self._loads.get((minute - offset // 60) % MINUTES, 0)


def _reversed(number: int, bits: int) -> int:
    return int(f"{number:0{bits}b}"[::-1], 2) if bits else 0


def _halving(number: int) -> float:
    """Return element `number` of 0, 1/2, 1/4, 3/4, 1/8, ...: each is in the middle of a gap between earlier ones."""
    bits = number.bit_length()
    return _reversed(number, bits) / (1 << bits)
