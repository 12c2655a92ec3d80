"""Computes which fires are due, independently of the code under test: only the data comes from there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from tests.simulation.records import FOREVER, JobRecord, Micros, Request
from tests.simulation.weather import S
from timeball.domain.schedule.schedule import CronSchedule, Date, Interval, Schedule

CRON: dict[str, Callable[[int], bool]] = {
    "* * * * * *": lambda second: True,
    "*/5 * * * * *": lambda second: second % 5 == 0,
    "3/10 * * * * *": lambda second: second % 60 in (3, 13, 23, 33, 43, 53),
    "10,20,45 * * * * *": lambda second: second % 60 in (10, 20, 45),
    "* * * * *": lambda second: second % 60 == 0,
    "*/2 * * * *": lambda second: second % 120 == 0,
    "30 */3 * * * *": lambda second: second % 60 == 30 and second % 3600 // 60 % 3 == 0,
    "0 0 * * * *": lambda second: second % 3600 == 0,
}
"""By expression: whether it fires in a second of the day (UTC), for each second."""


def instants(schedule: Schedule, anchor: Micros, until: Micros, starts: Micros | None = None) -> list[Micros]:
    """Return all fires of a schedule that was set at `anchor`, up to and including `until`, and not before `starts`."""
    match schedule:
        case Interval(expression=text):
            step = int(str(text).removesuffix("s")) * S
            grid = anchor if starts is None else starts
            return [instant for instant in range(grid + step, until + 1, step) if instant > anchor]
        case CronSchedule(expression=text):
            fires = CRON[text]
            seconds = range(anchor // S + 1, until // S + 1)
            return [at * S for at in seconds if fires(at % 86_400) and (starts is None or at * S >= starts)]
        case Date(expression=text):
            whole = micros(text)
            return [whole] if whole is not None and whole <= until else []
        case _:
            return [anchor] if anchor <= until else []


def micros(text: str | None) -> Micros | None:
    if text is None:
        return None
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round(moment.replace(microsecond=0).timestamp()) * S + moment.microsecond


@dataclass(slots=True)
class Due:
    """The fires that the ledger of a job may and must cover at the end."""

    allowed: set[Micros]
    required: set[Micros]
    fuzzy_from: Micros
    """From this instant on any fire is possible, because the answer to a change was lost."""


def due(record: JobRecord, created_at: Micros, next_fire_at: Micros | None, now: Micros) -> Due:
    changes = [change for change in record.changes if change.possible]
    endings = [change for change in changes if change.kind in ("reschedule", "cancel")]
    regimes: list[tuple[Schedule, Micros, Micros, Request | None]] = [
        (record.spec.schedule, created_at, created_at, None)
    ]
    fuzzy_from = FOREVER
    starts, ends = (micros(moment) for moment in (record.spec.start_at, record.spec.end_at))
    for change in endings:
        if change.kind == "reschedule":
            anchor = _anchor(change)
            if anchor is None or starts is not None:
                fuzzy_from = min(fuzzy_from, change.lo)
            else:
                assert change.spec is not None
                regimes.append((change.spec.schedule, anchor, change.hi, change))
    allowed: set[Micros] = set()
    required: set[Micros] = set()
    still_paused = _still_paused_from(changes)
    planned = FOREVER if next_fire_at is None else next_fire_at
    for schedule, anchor, since, made_by in regimes:
        others = [change for change in endings if change is not made_by]
        later = [change for change in others if made_by is None or change.lo >= made_by.lo]
        # A change that was requested earlier may take effect later, if its answer was lost.
        perhaps_later = [change for change in others if made_by is None or change.hi >= made_by.lo]
        latest = min((change.hi for change in later if change.happened), default=FOREVER)
        surely_until = min((max(change.lo, anchor) for change in perhaps_later), default=FOREVER)
        for instant in instants(schedule, anchor, now if ends is None else min(now, ends), starts):
            if instant <= latest or not record.recurring:
                allowed.add(instant)
            certain = instant > since or made_by is None
            if certain and instant < surely_until and (instant < still_paused or instant < planned < FOREVER):
                required.add(instant)
    return Due(allowed, required, fuzzy_from)


def _anchor(change: Request) -> Micros | None:
    """Return when a new schedule took effect, according to the answer; None: it is not known."""
    if not change.happened:
        return None
    job = change.answer.job
    return job.anchor if job.spec.parameters["rev"] == change.rev else None


def _still_paused_from(changes: list[Request]) -> Micros:
    """Return from when on a pause may be in force that was not certainly ended."""
    resumes = [change for change in changes if change.kind == "resume" and change.happened]
    return min(
        (
            change.lo
            for change in changes
            if change.kind == "pause" and not any(resume.lo >= change.hi for resume in resumes)
        ),
        default=FOREVER,
    )


def possibly_paused(record: JobRecord, instant: Micros) -> bool:
    """Return True if the job may have been paused at an instant."""
    changes = [change for change in record.changes if change.possible]
    resumes = [change for change in changes if change.kind == "resume"]
    for pause in changes:
        if pause.kind == "pause" and pause.lo <= instant:
            ended = min((resume.hi for resume in resumes if resume.happened and resume.lo >= pause.hi), default=FOREVER)
            if instant <= ended:
                return True
    return False
