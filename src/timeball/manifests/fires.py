"""The coming fires of a job that is not saved yet, by the rules of the server's planner."""

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

_NOBODY: Final = "j_" + "0" * 28
_ALIKE: Final = "the same name"
"""Names do not change here, so two schedules spread alike."""


class Ahead(NamedTuple):
    """The coming fires, in order."""

    fires: Sequence[Micros]
    until: Micros | None = None
    """How far they are known; None: these are all."""

    @property
    def first(self) -> Micros | None:
        return self.fires[0] if self.fires else None


def are_known_here(spec: JobSpec) -> bool:
    """Or has the server to be asked? Only it knows its calendars, the tenant, which `H` hashes, and free slots."""
    if isinstance(spec.schedule, Follow):
        return True  # nobody knows more of them
    if spec.calendars:
        return False
    if isinstance(spec.schedule, CronSchedule):
        return not uses_hash(spec.schedule.expression)
    return isinstance(spec.schedule, Immediate | Date | Interval)


def of(spec: JobSpec, now: Micros, most: int, anchor: Micros | None = None) -> Ahead:
    """The fires if it were saved now. Raises `InvalidSchedule` for a schedule that never fires. `anchor`: of a grid
    that goes on."""
    if anchor is not None:
        return _bounded(schedule.fires(spec.schedule, anchor, now, _ALIKE, ends=spec.ends), most)
    job, fire = planning.begin(_NOBODY, "default", spec, now)
    if spec.one_shot:
        return Ahead([at for at in (fire.fire_time if fire else job.next_fire_at,) if at is not None])
    return _bounded(upcoming_fires.coming(job.with_(fired=0), now), most)


def _bounded(fires: Iterator[Micros], most: int) -> Ahead:
    found = list(islice(fires, most))
    return Ahead(found, found[-1] if len(found) == most else None)


def anchor(old: JobSpec, new: JobSpec, coming: Ahead) -> Micros | None:
    """Where the grid of an interval begins that a change leaves as it is; None: it begins anew, or there is none."""
    goes_on = schedule.same_instants(old.schedule, new.schedule, _ALIKE, _ALIKE) and old.starts == new.starts
    if not (goes_on and isinstance(new.schedule, Interval)) or coming.first is None:
        return None
    return coming.first - duration.parse(new.schedule.expression)


def within(new: JobSpec, coming: Ahead) -> Ahead:
    """What new bounds leave of fires that otherwise stay as they are."""
    starts, ends = new.starts or 0, instant.MAX if new.ends is None else new.ends
    return Ahead([at for at in coming.fires if starts <= at <= ends], coming.until)


def keeps_slot(old: JobSpec, new: JobSpec) -> bool:
    """Whether a job keeps the time that it has in its window."""
    return isinstance(new.schedule, Window) and new.schedule.same_place(old.schedule)


def stay(old: JobSpec, new: JobSpec) -> bool:
    """Whether a change leaves the fires alone."""
    before, after = (
        (spec.starts, spec.ends, spec.max_runs, spec.calendars, spec.excluded if spec.calendars else None)
        for spec in (old, new)
    )
    return before == after and schedule.same_instants(old.schedule, new.schedule, _ALIKE, _ALIKE)
