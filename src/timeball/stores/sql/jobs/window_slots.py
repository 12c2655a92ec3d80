"""Slots of jobs in their windows. A slot is chosen in the transaction that writes the job, by one server at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final

from timeball.domain.instant import DAY, SECOND, Micros
from timeball.domain.job.job import HORIZON, Job, JobState
from timeball.domain.schedule import window_slots
from timeball.domain.schedule.schedule import SLOT, Window, fires
from timeball.domain.schedule.window_slots import Board
from timeball.ports.store.jobs import Amendment, Submission
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.statements import query

LOCK_SLOTS = query("lock_slots")
SLOT_LOADS = query("slot_loads")
OTHER_FIRES = query("other_fires")
ADD_SLOTS = query("add_slots")

MAX_OTHERS: Final = 5_000
"""Maximum number of fires of jobs without a slot that are counted for a window."""


async def choose(tx: Tx, windows: Sequence[Window], now: Micros, *, keep: bool = True) -> list[int]:
    """Return a slot for a job in each of these windows: the minute with the lowest load, one job after the other. With
    `keep`, no other transaction can choose slots until this one ends."""
    if not windows:
        return []
    if keep:
        await tx.execute(LOCK_SLOTS)
    board = Board(dict(await tx.fetch(SLOT_LOADS)))
    looked_at: set[tuple[int, int, str]] = set()
    counted: set[int] = set()
    chosen: list[int] = []
    for window in windows:
        place = (window.begin, window.length, window.timezone)
        if place not in looked_at:
            looked_at.add(place)
            others = [(minute, jobs) for minute, jobs in await _others(tx, window, now) if minute not in counted]
            counted.update(window_slots.minutes_of(window))
            for minute, jobs in others:
                board.add(minute, jobs)
        chosen.append(board.take(window))
    return chosen


async def _others(tx: Tx, window: Window, now: Micros) -> list[tuple[int, int]]:
    """Return how many jobs without a slot have their next fire in the window within the next 24 hours, as pairs of a
    minute of the day and a number. The minutes are those of the table `slot_loads`: UTC, with the window's time zone at
    its offset of `window_slots.REFERENCE`. If the window is open now, the rest of it is counted, and the next one up to
    24 hours from now."""
    earliest, latest = now - window.length * SECOND, now + DAY
    begins = fires(window.at(f"{SLOT}{window.begin}"), earliest, earliest, "")
    found: list[tuple[int, int]] = []
    for begin in takewhile(lambda begin: begin < latest, begins):
        shift = window_slots.clock_shift(window, begin)
        rows = await tx.fetch(
            OTHER_FIRES,
            since=max(begin, now) - HORIZON,
            until=min(begin + window.length * SECOND, latest) - HORIZON,
            horizon=HORIZON,
            limit=MAX_OTHERS,
        )
        found += [((minute + shift) % window_slots.MINUTES, others) for minute, others in rows]
    return found


def unplaced(submissions: Sequence[Submission]) -> list[int]:
    """Return the positions of submitted jobs that need a slot in their window."""
    return [
        at for at, each in enumerate(submissions) if type(each.job.spec.schedule) is Window and each.job.slot is None
    ]


def needs_slot(amendment: Amendment) -> bool:
    """True if an amendment gives a job a new window, so that the job needs a new slot."""
    return amendment.state is not JobState.CANCELLED and kept_slot(amendment) is None and _window(amendment) is not None


def kept_slot(amendment: Amendment) -> int | None:
    """Return the slot that a job keeps after an amendment; None if it has none, or needs a new one."""
    window, job = _window(amendment), amendment.job
    if window is None or amendment.state is JobState.CANCELLED:
        return None
    return job.slot if window.same_place(job.spec.schedule) else None


def _window(amendment: Amendment) -> Window | None:
    schedule = amendment.spec.schedule
    return schedule if isinstance(schedule, Window) else None


async def add(tx: Tx, came: Iterable[Job], went: Iterable[Job] = ()) -> None:
    """Add the slots of the jobs in `came` to the loads of the minutes, and subtract those of the jobs in `went`."""
    minutes: Counter[int] = Counter()
    for jobs, by in ((came, 1), (went, -1)):
        for job in jobs:
            if job.slot is not None and isinstance(job.spec.schedule, Window):
                minutes[window_slots.minute_of(job.spec.schedule, job.slot)] += by
    if changed := sorted((minute, by) for minute, by in minutes.items() if by):
        await tx.execute(ADD_SLOTS, b=changed)
