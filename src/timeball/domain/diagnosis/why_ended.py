"""The reasons for the end of a run and for its lateness."""

from __future__ import annotations

from typing import assert_never

from timeball.domain.diagnosis.reasons import Code, Reason
from timeball.domain.diagnosis.snapshot import Past
from timeball.domain.instant import MILLISECOND, render, to_datetime
from timeball.domain.run import lateness
from timeball.domain.run.ledger import TOLERANCE, Origin, Verdict
from timeball.domain.run.lifecycle import INVALID
from timeball.domain.run.status import STATUSES, End, Status
from timeball.domain.text.english import about, counted, listed, when


def reasons(facts: Past) -> list[Reason]:
    """Return the reasons for the end of a run; an empty list if the run is live."""
    run = facts.run
    end = STATUSES[run.status].end
    match end:
        case End.SUCCESS:
            return [*late(facts), _succeeded(facts)]
        case End.FAILURE:
            return [_gave_up(facts), *late(facts)]
        case End.CANCEL:
            because = f": {run.reason}" if run.reason else ""
            text = f"The run was cancelled{_at(facts)}{because}."
            return [Reason(code=Code.CANCELLED, text=text, unblocks=_again(facts), since=run.finished_at)]
        case End.SKIP:
            return [_never_ran(facts)]
        case None:
            return []
        case _:
            assert_never(end)


def archived(facts: Past) -> list[Reason]:
    """Return the reasons for the end of a run that is only in the archive."""
    day = f"{to_datetime(facts.run.created_at):%Y-%m-%d}"
    text = f"The run is in the archive and no longer in the store, like all runs that were created on {day}."
    return [*reasons(facts), Reason(code=Code.ARCHIVED, text=text)]


def late(facts: Past) -> list[Reason]:
    """Return the reason for the lateness of a run, with the parts of the delay; an empty list if the run was not late.
    A run that was caught up is late, however short its delay is. A run of a backfill is never late, because its fire
    time is always in the past. A late run without a reported start has a reason without parts."""
    run = facts.run
    if run.origin is Origin.BACKFILL:
        return []
    split = lateness.split(run, facts.first_attempt)
    caught_up = run.verdict is Verdict.CAUGHT_UP
    if split is None:
        if run.verdict is not Verdict.LATE:
            return []
        return [Reason(code=Code.LATE, text="The run was claimed late, and its worker never reported a start.")]
    if not caught_up and split.total <= TOLERANCE:
        return []
    parts = [
        (split.scheduler, "until the run was planned"),
        (split.blocked, "blocked by an earlier run, the ordering key or a limit"),
        (split.queue, "in the queue for a worker"),
        (split.worker, "on the worker before the start"),
    ]
    spent = [f"{about(time)} {where}" for time, where in sorted(parts, reverse=True) if time >= MILLISECOND]
    if caught_up:
        text = "The run was not planned at its time, because of an outage, a pause or a stall, and was caught up"
        return [Reason(code=Code.CAUGHT_UP, text=f"{text}, {about(split.total)} late ({listed(spent)}).")]
    return [Reason(code=Code.LATE, text=f"The run started {about(split.total)} late: {listed(spent)}.")]


def _succeeded(facts: Past) -> Reason:
    run = facts.run
    started = run.attempt_started_at if run.attempt_started_at is not None else run.started_at
    took = "" if started is None or run.finished_at is None else f" after {about(run.finished_at - started)}"
    where = "" if facts.spec is not None and facts.spec.is_workflow else f" on {run.worker}"
    text = f"The run succeeded{_at(facts)}{where}{took}{_attempts(facts)}."
    return Reason(code=Code.SUCCEEDED, text=text, since=run.finished_at)


def _gave_up(facts: Past) -> Reason:
    run = facts.run
    error = "" if run.failure is None else f": {run.failure.message}"
    if run.status is Status.DEAD:
        code, text = Code.DEAD, f"The run is dead: all attempts failed ({run.attempt}); the last one{error}"
    elif run.origin is Origin.TASK or (facts.spec is not None and facts.spec.is_workflow):
        code, text = Code.FAILED, f"The run failed{error}"
    elif facts.spec is None:
        code, text = Code.FAILED, f"The run failed, and was not retried{error}"
    elif facts.spec.delivery == "at_most_once":
        code, text = Code.AT_MOST_ONCE, f"The run failed, and its delivery at_most_once allows no retry{error}"
    elif run.failure is not None and run.failure.kind == INVALID:
        code, text = Code.FAILED, f"The run failed, and a retry would not help{error}"
    else:
        code, text = Code.FAILED, f"The run failed, and its retry policy excludes a retry of this failure{error}"
    if run.retried_as is not None:
        text = f"{text} (it was retried as run {run.retried_as})"
    elif run.discarded_at is not None:
        text = f"{text} (it was discarded)"
    return Reason(
        code=code,
        text=f"{text}.",
        unblocks=_retry(facts) if run.retried_as is None else "",
        since=run.finished_at,
        run_id=run.retried_as,
    )


def _retry(facts: Past) -> str:
    run = facts.run
    if run.origin is Origin.TASK:
        whole = facts.part_of or run.job_id
        return f"Fix the cause, then retry the workflow run: timeball workflows retry {whole}."
    if facts.spec is not None and facts.spec.is_workflow:
        return f"Fix the cause, then retry the failed tasks: timeball workflows retry {run.id}."
    return f"Fix the cause, then retry the run: timeball runs retry {run.id}."


def _never_ran(facts: Past) -> Reason:
    run = facts.run
    code, what = (Code.MISSED, "missed") if run.verdict is Verdict.MISSED else (Code.SKIPPED, "skipped")
    because = f": {run.reason}" if run.reason else ""
    if run.fires > 1:
        span = f"from {render(run.fire_time)} to {render(run.fire_until)}"
        text = f"{counted(run.fires, 'fire')} {span} were {what}{because}."
    else:
        text = f"The run was {what}{because}."
    return Reason(code=code, text=text, unblocks=_again(facts), since=run.fire_time)


def _again(facts: Past) -> str:
    return f"To run the job now: timeball jobs run {facts.run.job_id}."


def _at(facts: Past) -> str:
    return "" if facts.run.finished_at is None else f" {when(facts.run.finished_at, facts.now)}"


def _attempts(facts: Past) -> str:
    return f", in attempt {facts.run.attempt}" if facts.run.attempt > 1 else ""
