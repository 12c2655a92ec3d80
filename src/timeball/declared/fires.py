"""The coming fires of a job that is not saved yet, by the rules of the server's planner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from timeball.domain import duration, planning, schedule
from timeball.domain.describe import uses_hash
from timeball.domain.instant import Micros
from timeball.domain.job import JobSpec
from timeball.domain.schedule import CronSchedule, Interval

_NOBODY: Final = "j_" + "0" * 28


def has_hash(spec: JobSpec) -> bool:
    """Whether the server has to be asked: `H` hashes the tenant, which only the server knows."""
    return isinstance(spec.schedule, CronSchedule) and uses_hash(spec.schedule.expression)


def of_new(spec: JobSpec, now: Micros, most: int) -> list[Micros]:
    """Raises `InvalidSchedule` for a schedule that never fires."""
    job, fire = planning.begin(_NOBODY, "default", spec, now)
    if spec.one_shot:
        return [at for at in (fire.fire_time if fire else job.next_fire_at,) if at is not None]
    return list(islice(planning.coming(job.with_(fired=0), now), most))


def of_changed(old: JobSpec, new: JobSpec, coming: Sequence[Micros], now: Micros, most: int) -> list[Micros]:
    """Of a job whose fires are `coming` so far. An interval that stays as it is goes on in its grid."""
    same = schedule.same_instants(old.schedule, new.schedule, "same", "same")
    if same and isinstance(new.schedule, Interval) and new.starts is None and coming:
        step = duration.parse(new.schedule.expression)
        grid = schedule.fires(new.schedule, coming[0] - step, max(now, coming[0] - 1), "", ends=new.ends)
        return list(islice(_counted(grid, new), most))
    return of_new(new, now, most)


def _counted(fires: Iterator[Micros], spec: JobSpec) -> Iterator[Micros]:
    return fires if spec.max_runs is None else islice(fires, spec.max_runs)


def same_fires(old: JobSpec, new: JobSpec) -> bool:
    """Whether a change leaves the fires alone. A name is what `H` hashes, and names do not change here."""
    same_bounds = (old.starts, old.ends, old.max_runs) == (new.starts, new.ends, new.max_runs)
    return same_bounds and schedule.same_instants(old.schedule, new.schedule, "same", "same")
