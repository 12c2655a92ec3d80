"""The sentences for the reasons of a job, one function each. The module `why` decides which of them apply."""

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
        unblocks=f"Resume the job: timeball jobs resume {job.id}.",
        until=job.paused_until,
    )


def cancelled() -> Reason:
    text = "The job was cancelled and never fires again."
    return Reason(code=Code.CANCELLED, text=text, unblocks="Create a new job: a cancel is final.")


def unplannable(failure: PlanningFailure, now: Micros) -> Reason:
    return Reason(
        code=Code.UNPLANNABLE,
        text=f"The job cannot be planned since {moment(failure.since, now)}: {failure.reason}.",
        unblocks=f"Correct the calendar, or use a version of Timeball that can plan the job. Next attempt:"
        f" {when(failure.retry_at, now)}; it begins with the first fire that was due.",
        since=failure.since,
        until=failure.retry_at,
    )


def about_to_be_planned(fire: Micros, now: Micros) -> Reason:
    text = f"The fire of {moment(fire, now)} is about to become a run."
    return Reason(code=Code.PLANNING, text=text, since=fire)


def not_begun(starts: Micros, first: Micros, now: Micros) -> Reason:
    text = f"The schedule begins {when(starts, now)}; first fire: {when(first, now)}."
    return Reason(code=Code.NOT_BEGUN, text=text, until=first, unblocks="Set an earlier startAt.")


def next_fire(fire: Micros, alive: int, now: Micros) -> Reason:
    """Return the reason of a job that waits for its next fire. `alive` is the number of live runs of the job."""
    others = f"; {alive:,} runs of the job are alive" if alive > 1 else ""
    return Reason(code=Code.NOT_DUE, text=f"Next fire: {when(fire, now)}{others}.", until=fire)


def follows_nothing(schedule: str, *, is_gone: bool) -> Reason:
    """Return the reason of a job that follows a cancelled or deleted job. `schedule` is the description of its
    schedule."""
    ending = "no longer exists" if is_gone else "was cancelled"
    text = f"The job fires {schedule}, which {ending}: no run of that job will end any more."
    return Reason(code=Code.FOLLOWS, text=text, unblocks="Choose another job to follow, or another schedule.")


def follows_later(schedule: str, starts: Micros, now: Micros) -> Reason:
    text = f"The job fires {schedule}, from {moment(starts, now)} on."
    return Reason(code=Code.NOT_BEGUN, text=text, until=starts, unblocks="Set an earlier startAt.")


def follows(schedule: str, job_id: str, *, is_paused: bool) -> Reason:
    """Return the reason of a job that waits for the end of a run of another job. `is_paused` is True if that other job
    is paused."""
    paused = "; the followed job is paused" if is_paused else ""
    unblocks = f"The end of such a run. To run this job now: timeball jobs run {job_id}."
    return Reason(code=Code.FOLLOWS, text=f"The job fires {schedule}{paused}.", unblocks=unblocks)


def excluded(job: Job, closure: Closure | None, opens: Micros | None, now: Micros) -> Reason:
    """Return the reason of a job whose fire a calendar excludes. `closure` is the closed time that contains the fire;
    None if the excluded fire was an earlier one. `opens` is the next open fire of the job; None if none was found."""
    because = "A calendar excluded the last fire" if closure is None else f"The fire is {closure.reason}"
    then = "; no open fire was found" if opens is None else f"; next fire: {when(opens, now)}"
    if job.deferred_fire is not None and opens is not None:
        then += ", once for all excluded fires"
    unblocks = f"Nothing has to be done. To run the job now: timeball jobs run {job.id}."
    return Reason(code=Code.EXCLUDED, text=f"{because}{then}.", unblocks=unblocks, until=opens)


def exhausted(fired: int) -> Reason:
    text = f"The schedule has ended: the job has fired {counted(fired, 'time')}, which is its maxRuns."
    return Reason(code=Code.EXHAUSTED, text=text, unblocks="Set a higher maxRuns, or remove it.")


def ended(ends: Micros, now: Micros) -> Reason:
    text = f"The schedule has ended: no fire is left before endAt, {moment(ends, now)}."
    return Reason(code=Code.ENDED, text=text, unblocks="Set a later endAt, or remove it.")


def last_run_alive() -> Reason:
    return Reason(code=Code.COMPLETED, text="The job has no further fire after its current run.")


def completed(job_id: str) -> Reason:
    text = "The job is complete: it has fired, and has no further fire."
    return Reason(code=Code.COMPLETED, text=text, unblocks=f"To run the job again: timeball jobs run {job_id}.")
