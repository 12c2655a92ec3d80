"""Computes the next fires of a job that is not stored yet, by the rules of the planner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from timeball.domain import duration, instant
from timeball.domain.instant import Micros
from timeball.domain.job.job import JobSpec
from timeball.domain.planning import planning, upcoming_fires
from timeball.domain.schedule import schedule
from timeball.domain.schedule.schedule import CronSchedule, Date, Follow, Immediate, Interval, Window
from timeball.domain.text.schedule_text import uses_hash

_PLACEHOLDER_ID: Final = "j_" + "0" * 28
_ALIKE: Final = "the same name"
"""The name from which an `H` in a cron expression is computed, for both schedules of a comparison. It may be any name,
because a change does not change the name of the job.
"""


class ComingFires(NamedTuple):
    """The next fires of a job, in order."""

    fires: Sequence[Micros]
    until: Micros | None = None
    """The instant up to which the fires are known; None: these are all fires."""

    @property
    def first(self) -> Micros | None:
        return self.fires[0] if self.fires else None


def are_known_here(spec: JobSpec) -> bool:
    """Return True if the server is not needed to compute the fires. Only the server knows its calendars, the tenant
    (from which the value of `H` in a cron expression is computed), and the free slots of windows.
    """
    if isinstance(spec.schedule, Follow):
        return True  # neither the command nor the server knows a fire in advance
    if spec.calendars:
        return False
    if isinstance(spec.schedule, CronSchedule):
        return not uses_hash(spec.schedule.expression)
    return isinstance(spec.schedule, Immediate | Date | Interval)


def of(spec: JobSpec, now: Micros, limit: int, anchor: Micros | None = None) -> ComingFires:
    """Return the fires of a job as if it were stored now. Raise `InvalidSchedule` for a schedule that never fires.
    `anchor` is the instant from which an interval counts, if a change of the job keeps it."""
    if anchor is not None:
        return _bounded(schedule.fires(spec.schedule, anchor, now, _ALIKE, ends=spec.ends), limit)
    job, fire = planning.begin(_PLACEHOLDER_ID, "default", spec, now)
    if spec.one_shot:
        return ComingFires([at for at in (fire.fire_time if fire else job.next_fire_at,) if at is not None])
    return _bounded(upcoming_fires.coming(job.with_(fired=0), now), limit)


def _bounded(fires: Iterator[Micros], limit: int) -> ComingFires:
    found = list(islice(fires, limit))
    return ComingFires(found, found[-1] if len(found) == limit else None)


def anchor(old: JobSpec, new: JobSpec, coming: ComingFires) -> Micros | None:
    """Return the start of the grid of an interval that a change keeps; None: the grid starts again, or the schedule is
    not an interval.
    """
    goes_on = schedule.same_instants(old.schedule, new.schedule, _ALIKE, _ALIKE) and old.starts == new.starts
    if not (goes_on and isinstance(new.schedule, Interval)) or coming.first is None:
        return None
    return coming.first - duration.parse(new.schedule.expression)


def within(new: JobSpec, coming: ComingFires) -> ComingFires:
    """Return those of the next fires that are within `startAt` and `endAt` of a changed job."""
    starts, ends = new.starts or 0, instant.MAX if new.ends is None else new.ends
    return ComingFires([at for at in coming.fires if starts <= at <= ends], coming.until)


def keeps_slot(old: JobSpec, new: JobSpec) -> bool:
    """Return True if a changed job keeps the slot that it has in its window."""
    return isinstance(new.schedule, Window) and new.schedule.same_place(old.schedule)


def stay(old: JobSpec, new: JobSpec) -> bool:
    """Return True if a change of a job does not affect its fires."""
    before, after = (
        (spec.starts, spec.ends, spec.max_runs, spec.calendars, spec.excluded if spec.calendars else None)
        for spec in (old, new)
    )
    return before == after and schedule.same_instants(old.schedule, new.schedule, _ALIKE, _ALIKE)
