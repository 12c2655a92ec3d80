"""I2, I20: every fire becomes one run or part of one span, by the catch-up rule, in bounded steps."""

import re
from typing import Any

import pytest

from timeball.domain.dispatch.overlap import QUEUE_DEPTH, Admission, Overlap, admit
from timeball.domain.errors import InvalidSchedule
from timeball.domain.instant import DAY, HOUR, MINUTE, SECOND, Micros, render
from timeball.domain.job.job import HORIZON, Job, JobSpec, JobState
from timeball.domain.planning import planning
from timeball.domain.planning.planning import MAX_INSTANTS, MAX_RUNS, PlannedFire, Span, begin, first_fire, plan
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.schedule.schedule import CronSchedule, Date, Immediate, Interval, Schedule
from timeball.domain.task.task import Shell

START = 1_700_000_000 * SECOND


def job(schedule: Schedule, next_fire_at: Micros | None, **spec) -> Job:
    return Job(
        id="j_1",
        tenant="default",
        spec=JobSpec(task=Shell(command="true"), schedule=schedule, **spec),
        version=1,
        state=JobState.ACTIVE,
        anchor=START,
        next_fire_at=next_fire_at,
        plan_at=0,
        created_at=START,
        updated_at=START,
    )


def every(text: str, **spec) -> Job:
    step = Interval(expression=text)
    return job(step, START + {"1s": SECOND, "1m": MINUTE, "1h": HOUR}[text], **spec)


def work_off(start: Job, now: Micros):
    """Plan step by step until nothing overdue is left, as the planner does."""
    steps, current, rounds = [], start, 0
    while current.next_fire_at is not None and current.next_fire_at <= now:
        made = plan(current, now)
        assert made.runs <= MAX_RUNS
        assert made.instants <= MAX_INSTANTS
        steps += made.steps
        current = current.with_(next_fire_at=made.next_fire_at, plan_at=made.plan_at)
        rounds += 1
    return steps, current, rounds


def fires(steps) -> list[PlannedFire]:
    return [step for step in steps if isinstance(step, PlannedFire)]


def instants_covered(steps) -> int:
    return sum(step.count if isinstance(step, Span) else 1 for step in steps)


def test_one_future_fire_at_most_is_planned_ahead() -> None:
    made = plan(every("1s"), START)
    assert [fire.fire_time for fire in fires(made.steps)] == [START + SECOND]
    assert made.next_fire_at == START + 2 * SECOND
    assert made.plan_at == START + SECOND, "the next one only when this one falls due"


def at(offset: Micros) -> Date:
    return Date(expression=render(START + offset))


@pytest.mark.parametrize("rules", [{}, {"jitter": "30s"}, {"start_deadline": "1h"}, {"overlap": "allow"}])
@pytest.mark.parametrize(
    "schedule",
    [
        Immediate(),
        at(-DAY),
        at(-HOUR),
        at(-1),
        at(0),
        at(1),
        at(HORIZON),
        at(HORIZON + 1),
        at(DAY),
        Interval(expression="1s"),
        Interval(expression="15s"),
        Interval(expression="1h"),
        CronSchedule(expression="* * * * * *"),
        CronSchedule(expression="@daily"),
    ],
)
def test_a_new_job_begins_as_the_planner_would_begin_it(schedule: Schedule, rules: dict[str, Any]) -> None:
    new = job(schedule, None, **rules)
    try:
        first = first_fire(new, START)
    except InvalidSchedule as refused:
        with pytest.raises(InvalidSchedule, match=re.escape(refused.detail)):
            begin("j_1", "default", new.spec, START)
        return
    made = plan(new.with_(next_fire_at=first), START)
    planned = new.with_(next_fire_at=made.next_fire_at, plan_at=made.plan_at, fired=made.runs)
    assert begin("j_1", "default", new.spec, START) == (planned, *(made.steps or (None,)))


def test_most_jobs_begin_without_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Immediate ones are the hot case: nothing is to be computed that is known."""
    monkeypatch.delattr(planning, "plan")
    for schedule in (at(0), at(DAY)):
        assert begin("j_1", "default", job(schedule, None).spec, START)
    monkeypatch.delattr(planning, "first_fire")
    assert begin("j_1", "default", job(Immediate(), None).spec, START)


def test_a_fire_beyond_the_horizon_waits() -> None:
    made = plan(every("1h"), START)
    assert made.steps == ()
    assert made.plan_at == START + HOUR - HORIZON


def test_all_catches_up_within_the_window_and_accounts_for_the_rest() -> None:
    now = START + 3 * HOUR + SECOND // 2
    steps, after, _ = work_off(every("1m", overlap=Overlap.ALLOW), now)
    due = [fire for fire in fires(steps) if fire.fire_time <= now]
    assert len(due) == 60
    assert all(fire.origin is Origin.CATCH_UP for fire in due[:-1])
    assert due[-1].origin is Origin.SCHEDULE, "half a second late is not missed"
    assert instants_covered([step for step in steps if step not in fires(steps) or step in due]) == 180
    [missed] = [step for step in steps if isinstance(step, Span)]
    assert (missed.first, missed.count, missed.verdict) == (START + MINUTE, 120, Verdict.MISSED)
    assert after.next_fire_at is not None


@pytest.mark.parametrize(("rule", "caught_up"), [("all", 1), ("last", 1), ("none", 0)])
def test_whatever_the_window_the_newest_missed_fire_runs_except_with_none(rule, caught_up) -> None:
    now = START + 3 * HOUR + 30 * MINUTE
    steps, _, _ = work_off(every("1h", catch_up=rule, catch_up_window="1m"), now)
    assert [fire.fire_time for fire in fires(steps)] == [START + 3 * HOUR] * caught_up
    assert instants_covered(steps) == 3


def test_days_of_seconds_are_worked_off_in_bounded_steps() -> None:
    now = START + 5 * DAY
    steps, after, rounds = work_off(every("1s", catch_up="last", overlap=Overlap.ALLOW), now)
    due = [step for step in steps if not (isinstance(step, PlannedFire) and step.fire_time > now)]
    assert instants_covered(due) == 5 * 86_400
    assert rounds >= 5 * 86_400 // MAX_INSTANTS
    assert after.next_fire_at is not None
    assert after.next_fire_at > now


def test_a_one_shot_runs_however_late_and_is_no_catch_up() -> None:
    late = job(Date(expression="2023-11-14T22:13:21Z"), START + SECOND, catch_up="none")
    [fire] = plan(late, START + 365 * DAY).steps
    assert isinstance(fire, PlannedFire)
    assert (fire.fire_time, fire.origin, fire.eligible_at) == (START + SECOND, Origin.SCHEDULE, START + 365 * DAY)


def test_an_immediate_job_is_planned_once_and_never_again() -> None:
    made = plan(job(Immediate(), START), START)
    assert len(made.steps) == 1
    assert (made.next_fire_at, made.plan_at) == (None, None)


def test_what_was_caught_up_ranks_by_when_it_became_claimable() -> None:
    now = START + 10 * MINUTE
    steps = plan(every("1m", overlap=Overlap.ALLOW), now).steps
    assert all(fire.eligible_at == max(now, fire.fire_time) for fire in fires(steps))


@pytest.mark.parametrize(
    ("policy", "alive", "waiting", "expected"),
    [
        (Overlap.ALLOW, 5, 0, Admission.RUN),
        (Overlap.SKIP, 0, 0, Admission.RUN),
        (Overlap.SKIP, 1, 0, Admission.SKIP),
        (Overlap.QUEUE, 0, 0, Admission.RUN),
        (Overlap.QUEUE, 1, 0, Admission.WAIT),
        (Overlap.QUEUE, QUEUE_DEPTH, QUEUE_DEPTH - 1, Admission.WAIT),
        (Overlap.QUEUE, QUEUE_DEPTH + 1, QUEUE_DEPTH, Admission.SKIP),
    ],
)
def test_overlap_policies(policy, alive, waiting, expected) -> None:
    assert admit(policy, alive, waiting) is expected
