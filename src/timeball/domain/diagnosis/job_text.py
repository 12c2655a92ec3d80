"""Reasons of a job in words: one function for each sentence. `why` decides which of them apply."""

from __future__ import annotations

from timeball.domain.diagnosis.reasons import Code, Reason
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job
from timeball.domain.planning.planning_failure import PlanningFailure
from timeball.domain.schedule.closed_times import Closure
from timeball.domain.text.english import counted, moment, when


def paused(job: Job, now: Micros) -> Reason:
    because = f": {job.pause_reason}" if job.pause_reason else ""
    until = "" if job.paused_until is None else f" until {moment(job.paused_until, now)}"
    return Reason(
        code=Code.PAUSED,
        text=f"The job is paused{until}{because}.",
        unblocks=f"Resume it: timeball jobs resume {job.id}.",
        until=job.paused_until,
    )


def cancelled() -> Reason:
    text = "The job was cancelled: nothing fires any more."
    return Reason(code=Code.CANCELLED, text=text, unblocks="Create a new one: a cancel is final.")


def unplannable(failure: PlanningFailure, now: Micros) -> Reason:
    return Reason(
        code=Code.UNPLANNABLE,
        text=f"It cannot be planned since {moment(failure.since, now)}: {failure.reason}.",
        unblocks=f"Mend the calendar, or a version of Timeball that can plan it; the next try is"
        f" {when(failure.retry_at, now)}, and begins with the first fire that was due.",
        since=failure.since,
        until=failure.retry_at,
    )


def about_to_be_planned(fire: Micros, now: Micros) -> Reason:
    text = f"Its fire of {moment(fire, now)} is about to become a run."
    return Reason(code=Code.PLANNING, text=text, since=fire)


def not_begun(starts: Micros, first: Micros, now: Micros) -> Reason:
    text = f"Its schedule begins {when(starts, now)}; it fires first {when(first, now)}."
    return Reason(code=Code.NOT_BEGUN, text=text, until=first, unblocks="An earlier startAt.")


def next_fire(fire: Micros, alive: int, now: Micros) -> Reason:
    """`alive`: its live runs."""
    others = f"; {alive:,} runs of it are alive" if alive > 1 else ""
    return Reason(code=Code.NOT_DUE, text=f"It fires next {when(fire, now)}{others}.", until=fire)


def follows_nothing(schedule: str, *, is_gone: bool) -> Reason:
    """Of a job whose schedule, in words, names a job that was cancelled or is gone."""
    fate = "is gone" if is_gone else "was cancelled"
    text = f"It fires {schedule}, which {fate}: nothing of that will end any more."
    return Reason(code=Code.FOLLOWS, text=text, unblocks="Another job to follow, or another schedule.")


def follows_later(schedule: str, starts: Micros, now: Micros) -> Reason:
    text = f"It fires {schedule}, from {moment(starts, now)} on."
    return Reason(code=Code.NOT_BEGUN, text=text, until=starts, unblocks="An earlier startAt.")


def follows(schedule: str, job_id: str, *, is_paused: bool) -> Reason:
    """`is_paused`: the job that it follows is."""
    paused = "; that one is paused" if is_paused else ""
    unblocks = f"The end of such a run. Run it now: timeball jobs run {job_id}."
    return Reason(code=Code.FOLLOWS, text=f"It fires {schedule}{paused}.", unblocks=unblocks)


def excluded(job: Job, closure: Closure | None, opens: Micros | None, now: Micros) -> Reason:
    """`opens`: its next open fire."""
    because = "A calendar excluded its last fire" if closure is None else f"Its fire is {closure.reason}"
    then = "; no open one is in sight" if opens is None else f"; it fires next {when(opens, now)}"
    if job.owed is not None and opens is not None:
        then += ", once for all that was excluded"
    unblocks = "Time, or another calendar. Run it now: timeball jobs run " + job.id + "."
    return Reason(code=Code.EXCLUDED, text=f"{because}{then}.", unblocks=unblocks, until=opens)


def exhausted(fired: int) -> Reason:
    text = f"Its schedule is over: it has fired {counted(fired, 'time')}, as often as maxRuns allows."
    return Reason(code=Code.EXHAUSTED, text=text, unblocks="A higher maxRuns, or none.")


def ended(ends: Micros, now: Micros) -> Reason:
    text = f"Its schedule is over: no fire is left before endAt, {moment(ends, now)}."
    return Reason(code=Code.ENDED, text=text, unblocks="A later endAt, or none.")


def last_run_alive() -> Reason:
    return Reason(code=Code.COMPLETED, text="Nothing is left to fire after the run that it has.")


def completed(job_id: str) -> Reason:
    text = "It is complete: it has fired, and nothing is left to fire."
    return Reason(code=Code.COMPLETED, text=text, unblocks=f"Run it once more: timeball jobs run {job_id}.")
