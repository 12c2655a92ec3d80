"""I2, I5, I20: for any schedule, bounds and absences of the planner, every due instant becomes exactly one run or part
of one span, compared with a brute-force oracle that counts seconds."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.thorough import THOROUGH
from timeball.domain.errors import InvalidSchedule
from timeball.domain.instant import HOUR, MINUTE, SECOND, Micros, render
from timeball.domain.job.job import Job, JobSpec, JobState
from timeball.domain.planning import planning
from timeball.domain.planning.planning import PlannedFire, Span
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.schedule.schedule import CronSchedule, Interval
from timeball.domain.task.task import Shell

CREATED = 1_800_000_000 * SECOND + 123_456
LENGTH = 40 * MINUTE
"""How long each story lasts."""
HORIZON, TOLERANCE = 15 * SECOND, 2 * SECOND

CRONS: dict[str, Callable[[int], bool]] = {
    "* * * * * *": lambda second: True,
    "*/7 * * * * *": lambda second: second % 60 % 7 == 0,
    "* * * * *": lambda second: second % 60 == 0,
    "*/5 * * * *": lambda second: second % 300 == 0,
    "15,45 */3 * * * *": lambda second: second % 60 in (15, 45) and second // 60 % 60 % 3 == 0,
}
"""For each expression, whether it fires in a second since the epoch."""


LENGTHS = {
    "0s": 0,
    "1s": SECOND,
    "10s": 10 * SECOND,
    "20s": 20 * SECOND,
    "30s": 30 * SECOND,
    "1m": MINUTE,
    "5m": 5 * MINUTE,
    "10m": 10 * MINUTE,
    "15m": 15 * MINUTE,
    "1h": HOUR,
}


@dataclass(frozen=True)
class Story:
    """A job, and the moments between which a planner is there: it comes, goes, comes again."""

    spec: JobSpec
    present: tuple[tuple[Micros, Micros], ...]
    most_runs: int
    most_instants: int


def seconds(least: int, limit: int) -> st.SearchStrategy[Micros]:
    return st.integers(least, limit).map(lambda count: count * SECOND)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    start = draw(st.none() | seconds(-600, 1_800))
    end = draw(st.none() | seconds(60, 2_400))
    if start is not None and end is not None and end < start:
        start, end = end, start
    spec = JobSpec(
        task=Shell(command="true"),
        schedule=draw(
            st.sampled_from([CronSchedule(expression=text) for text in CRONS])
            | st.integers(1, 400).map(lambda step: Interval(expression=step))
        ),
        catch_up=draw(st.sampled_from(["all", "last", "none"])),
        catch_up_window=draw(st.sampled_from(["0s", "10s", "1m", "10m", "1h"])),
        overlap="allow",
        start_at=None if start is None else render(CREATED // SECOND * SECOND + start),
        end_at=None if end is None else render(CREATED // SECOND * SECOND + end),
        max_runs=draw(st.none() | st.integers(1, 30)),
        jitter=draw(st.none() | st.sampled_from(["1s", "20s", "5m", "1h"])),
        start_deadline=draw(st.none() | st.sampled_from(["1s", "30s", "15m"])),
    )
    turns = draw(st.lists(st.integers(1, LENGTH - 1), max_size=8, unique=True).map(sorted))
    moments = [CREATED, *(CREATED + turn for turn in turns), CREATED + LENGTH]
    present = tuple(pair for place, pair in enumerate(pairwise(moments)) if place % 2 == 0)
    if present[-1][1] < CREATED + LENGTH:
        present += ((CREATED + LENGTH, CREATED + LENGTH),)
    return Story(spec, present, draw(st.sampled_from([1, 3, 500])), draw(st.sampled_from([1, 10, 10_000])))


# --- what happens -----------------------------------------------------------------------------------------------------


def told(story: Story) -> tuple[Job, list[PlannedFire | Span]] | None:
    """What the planner makes of it; None: the job is refused."""
    spec = story.spec
    job = Job(
        id="j_1",
        tenant="t",
        spec=spec,
        version=1,
        state=JobState.ACTIVE,
        anchor=CREATED if spec.starts is None else spec.starts,
        next_fire_at=None,
        plan_at=None,
        created_at=CREATED,
        updated_at=CREATED,
    )
    try:
        first = planning.first_fire(job, CREATED)
    except InvalidSchedule:
        return None
    job = job.with_(next_fire_at=first, plan_at=first - HORIZON)
    steps: list[PlannedFire | Span] = []
    for came, went in story.present:
        now = came
        while job.plan_at is not None and job.plan_at <= went:
            now = max(now, job.plan_at)
            plan = planning.plan(job, now, most_runs=story.most_runs, most_instants=story.most_instants)
            assert plan.runs <= story.most_runs
            assert plan.instants <= story.most_instants
            assert plan.steps or plan.plan_at is None or plan.plan_at > now, "every step gets somewhere"
            steps += plan.steps
            job = job.with_(next_fire_at=plan.next_fire_at, plan_at=plan.plan_at, fired=job.fired + plan.runs)
    return job, steps


# --- what should happen -----------------------------------------------------------------------------------------------


def instants(spec: JobSpec) -> Iterator[Micros]:
    """Every instant of the story, by looking at every second."""
    first = CREATED if spec.starts is None else max(CREATED, spec.starts - 1)
    last = CREATED + LENGTH + HORIZON if spec.ends is None else min(CREATED + LENGTH + HORIZON, spec.ends)
    match spec.schedule:
        case Interval(expression=step):
            origin = CREATED if spec.starts is None else spec.starts
            count = 1
            while (at := origin + count * int(step) * SECOND) <= last:
                if at > CREATED:
                    yield at
                count += 1
        case CronSchedule(expression=text):
            for second in range(first // SECOND, last // SECOND + 1):
                if first < second * SECOND <= last and CRONS[text](second):
                    yield second * SECOND


def jitter(spec: JobSpec, at: Micros) -> Micros:
    if spec.jitter is None:
        return 0
    digest = hashlib.blake2b(f"j_1/{at}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) % (
        {"1s": SECOND, "20s": 20 * SECOND, "5m": 5 * MINUTE, "1h": HOUR}[str(spec.jitter)] + 1
    )


def foretold(story: Story) -> list[tuple[Micros, str]]:
    """The fate of every instant that is decided by the end of the story, in order."""
    spec, fates, count = story.spec, list[tuple[Micros, str]](), 0
    everything = list(instants(spec))
    previous = 0
    for at in everything:
        if spec.max_runs is not None and count >= spec.max_runs:
            break
        decided_at = _decided_at(story, at, previous)
        if decided_at is None:
            break
        fate = "on schedule" if decided_at <= at else _fate_of_late(spec, at, decided_at, everything)
        if fate in ("on schedule", "caught up"):
            count += 1
            previous = at
        fates.append((at, fate))
    return fates


def _decided_at(story: Story, at: Micros, previous: Micros) -> Micros | None:
    """When the planner first sees it: up to 15 s ahead, but not before the run before it fell due."""
    visible = max(at - HORIZON, previous)
    return next((max(came, visible) for came, went in story.present if went >= visible), None)


def _fate_of_late(spec: JobSpec, at: Micros, now: Micros, everything: list[Micros]) -> str:
    def late(instant: Micros) -> bool:
        return instant + jitter(spec, instant) < now - TOLERANCE

    due_at = at + jitter(spec, at)
    newest = not any(late(other) for other in everything if at < other < now)
    fate = "caught up" if late(at) else "on schedule"
    if late(at):
        match spec.catch_up:
            case "all" if due_at < now - LENGTHS[str(spec.catch_up_window)] and not newest:
                return "missed"
            case "last" if not newest:
                return "missed"
            case "none":
                return "missed"
    if spec.start_deadline is not None and due_at + LENGTHS[str(spec.start_deadline)] < now:
        return "skipped"
    return fate


# --- the comparison ---------------------------------------------------------------------------------------------------


def unfolded(steps: list[PlannedFire | Span], everything: list[Micros]) -> list[tuple[Micros, str]]:
    """Steps instant by instant."""
    fates: list[tuple[Micros, str]] = []
    for step in steps:
        if isinstance(step, PlannedFire):
            fates.append((step.fire_time, "caught up" if step.origin is Origin.CATCH_UP else "on schedule"))
            continue
        inside = [at for at in everything if step.first <= at <= step.last]
        assert (inside[0], inside[-1], len(inside)) == (step.first, step.last, step.count)
        assert step.reason
        fates += [(at, {Verdict.MISSED: "missed", Verdict.SKIPPED: "skipped"}[step.verdict]) for at in inside]
    return fates


@settings(max_examples=1_000 if THOROUGH else 120, deadline=None)
@given(stories())
def test_every_instant_meets_the_fate_that_the_rules_foretell(story: Story) -> None:
    everything = list(instants(story.spec))
    happened = told(story)
    if happened is None:
        assert not everything
        return
    job, steps = happened
    assert unfolded(steps, everything) == foretold(story)
    assert job.fired == sum(isinstance(step, PlannedFire) for step in steps)
    if story.spec.max_runs is not None:
        assert job.fired <= story.spec.max_runs
    if job.next_fire_at is not None:
        assert job.next_fire_at > CREATED + LENGTH, "nothing is left behind"
