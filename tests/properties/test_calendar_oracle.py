"""Calendars compared with brute force: which times are closed, and what happens to every fire of a job that refers to
them."""

import bisect
from collections import Counter, deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from operator import itemgetter
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.cron_oracle import micros, moment, zone_info
from tests.support.thorough import THOROUGH
from timeball.domain import duration
from timeball.domain.instant import HOUR, MINUTE, SECOND, Micros, render
from timeball.domain.job.job import Job, JobSpec, JobState
from timeball.domain.planning import planning
from timeball.domain.planning.planning import PlannedFire, Span
from timeball.domain.run.ledger import Verdict
from timeball.domain.schedule import cron, zone
from timeball.domain.schedule.calendar import Calendar, NamedCalendar
from timeball.domain.schedule.closed_times import Closures
from timeball.domain.schedule.schedule import CronSchedule, Interval
from timeball.domain.task.task import Shell

ZONES = ["UTC", "Europe/Berlin", "America/Havana", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia"]
STEP = 30 * MINUTE
"""Clocks are put forward and back by multiples of this."""


def closures(*calendars: dict[str, Any]) -> Closures:
    return Closures(
        [
            NamedCalendar(
                tenant="t", name=f"c{at}", calendar=msgspec.convert(document, Calendar), version=1, updated_at=0
            )
            for at, document in enumerate(calendars)
        ]
    )


# --- what is closed -------------------------------------------------------------------------------------------------


@st.composite
def calendars(draw: st.DrawFn) -> dict[str, Any]:
    zone = draw(st.sampled_from(ZONES))
    # Around clock changes of these zones.
    start = datetime(2018, draw(st.sampled_from([2, 3, 10, 11])), 1) + timedelta(days=draw(st.integers(0, 27)))
    entries = []
    for _ in range(draw(st.integers(1, 3))):
        form = draw(st.sampled_from(["dates", "from", "cron"]))
        if form == "dates":
            days = draw(st.lists(st.integers(-2, 5), min_size=1, max_size=3))
            entries.append({"dates": [f"{start + timedelta(days=day):%Y-%m-%d}" for day in days]})
        elif form == "from":
            begin = start + timedelta(minutes=30 * draw(st.integers(-48, 96)))
            end = begin + timedelta(minutes=30 * draw(st.integers(9, 96)))
            entries.append({"from": f"{begin:%Y-%m-%dT%H:%M}", "to": f"{end:%Y-%m-%d %H:%M:%S}"})
        else:
            minute, hour = draw(st.sampled_from([0, 30])), draw(st.integers(0, 23))
            day = draw(st.sampled_from(["*", "FRI", "MON-WED"]))
            entries.append({"cron": f"{minute} {hour} * * {day}", "for": f"{draw(st.integers(1, 90))}h"})
    return {"timezone": zone, "entries": entries, "start": start}


def closed_by_wall_clock(document: dict[str, Any], tried: range) -> list[bool]:
    """By looking at the wall clock at each of these instants."""
    zone = zone_info(document["timezone"])
    spans: list[tuple[Micros, Micros]] = []
    days: set[str] = set()
    for entry in document["entries"]:
        days.update(entry.get("dates", ()))
        if "from" in entry:
            begin = _happens(datetime.fromisoformat(entry["from"]), zone, last=False)
            spans.append((begin, _happens(datetime.fromisoformat(entry["to"]), zone, last=True)))
        if "cron" in entry:
            length = int(entry["for"][:-1]) * HOUR
            starts = (at for at in range(tried.start - length, tried.stop, STEP) if _is_window(entry, zone, at))
            spans += [(at, at + length) for at in starts]
    return [
        f"{moment(at).astimezone(zone):%Y-%m-%d}" in days or any(begin <= at < end for begin, end in spans)
        for at in tried
    ]


def _happens(wall: datetime, zone: Any, *, last: bool) -> Micros:
    """The first or the last instant at which clocks show a wall time, by trying; else the first at which they show a
    later one."""
    around = micros(wall.replace(tzinfo=UTC))
    tried = range(around - 27 * HOUR, around + 27 * HOUR, STEP)
    shown = [at for at in tried if moment(at).astimezone(zone).replace(tzinfo=None) == wall]
    if shown:
        return shown[-1] if last else shown[0]
    return next(at for at in tried if moment(at).astimezone(zone).replace(tzinfo=None) > wall)


def _is_window(entry: dict[str, Any], zone: Any, start: Micros) -> bool:
    """Whether one begins here."""
    minute, hour, _, _, day = entry["cron"].split()
    due = int(hour) * 60 + int(minute)
    days = {"*": range(7), "FRI": [4], "MON-WED": [0, 1, 2]}[day]
    now, before = (moment(each).astimezone(zone).replace(tzinfo=None) for each in (start, start - 1))
    if now - before <= timedelta(microseconds=1) and now >= before:
        passed = [now]
    elif now > before:  # the clocks went forward here: all that was left out counts
        left_out = range(int((now - before) / timedelta(minutes=30)) + 1)
        passed = [now - timedelta(minutes=30 * back) for back in left_out]
    else:
        passed = []
    # What clocks show again was passed already.
    earlier = [moment(start - back * STEP).astimezone(zone).replace(tzinfo=None) for back in range(1, 5)]
    return any(
        wall.hour * 60 + wall.minute == due and wall.weekday() in days and not any(wall <= seen for seen in earlier)
        for wall in passed
    )


@given(calendars())
@settings(max_examples=1_000 if THOROUGH else 25, deadline=None)
def test_closed_is_what_the_wall_clock_says(document: dict[str, Any]) -> None:
    start = micros(document.pop("start").replace(tzinfo=UTC))
    found = closures(document)
    tried = range(start - 24 * HOUR, start + 96 * HOUR, STEP)
    told = list(zip(tried, closed_by_wall_clock(document, tried), strict=True))
    for at, closed in told:
        closure = found.at(at)
        assert (closure is not None) == closed, render(at)
    for (_, before), (at, closed) in pairwise(told):
        if before and not closed:
            assert found.opening(at - 1) == at
            assert (inside := found.at(at - 1)) is not None
            assert inside.end == at


# --- windows, by their fires ------------------------------------------------------------------------------------------

DAILY = ["* * * * * *", "*/2 * * * *", "*/7 */5 * * * *", "0-29 * * * *", "5,59 1-3 * * *", "30 2 * * *"]
RARE = ["0 0 1 * *", "15 2 L * MON-FRI", "0 12 29 2 *", "0 0 1 1 *", "45 23 * * SAT,SUN"]
LENGTHS = ["1m", "61s", "1m500ms", "7m", "59m", "1h30m", "23h59m59s", "1d", "25h", "3d", "40d", "366d"]


@st.composite
def window_stories(draw: st.DrawFn) -> tuple[dict[str, Any], Micros]:
    entries: list[dict[str, Any]] = [
        {"cron": draw(st.sampled_from(DAILY + RARE)), "for": draw(st.sampled_from(LENGTHS))}
        for _ in range(draw(st.integers(1, 4)))
    ]
    year, month, day = (
        draw(st.sampled_from([2011, 2018, 2023, 2024])),
        draw(st.integers(1, 12)),
        draw(st.integers(1, 28)),
    )
    start = micros(datetime(year, month, day, tzinfo=UTC)) + draw(st.integers(0, 86_400)) * SECOND
    return {"timezone": draw(st.sampled_from(ZONES)), "entries": entries}, start


@given(window_stories())
@settings(max_examples=1_000 if THOROUGH else 15, deadline=None)
def test_windows_close_what_their_fires_say(story: tuple[dict[str, Any], Micros]) -> None:
    """Dense windows, long ones, fractions of seconds, clock changes: all fires are tried, one by one."""
    document, start = story
    until = start + (4 if THOROUGH else 2) * 24 * HOUR
    found = closures(document)
    place = zone.get(document["timezone"])
    spans: list[tuple[Micros, Micros, int]] = []
    for at, entry in enumerate(document["entries"]):
        length = duration.parse(entry["for"])
        rule = cron.parse(entry["cron"])
        # What fires every day and closes for longer is closed by the fires of the last days as well.
        begins = start - (min(length, 48 * HOUR) if entry["cron"] in DAILY else length) - 1
        last: tuple[Micros, Micros, int] | None = None
        for fire in _until(cron.fires(rule, place, begins), until):
            if last is not None and fire <= last[1]:
                last = (last[0], fire + length, at)
                continue
            if last is not None:
                spans.append(last)
            last = (fire, fire + length, at)
        if last is not None:
            spans.append(last)
    edges = {edge for begin, end, _ in spans for edge in (begin, end)}
    tried = sorted(
        {at for edge in edges for at in (edge - 1, edge)} | set(range(start, until, 13 * MINUTE)),
    )
    spans.sort()
    joined: list[list[Micros]] = []
    """All that is closed, as spans that do not touch."""
    for begin, end, _ in spans:
        if joined and begin <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([begin, end])
    begun: list[tuple[Micros, Micros, int]] = []
    """The spans that have begun at the instant that is tried, without those that have ended."""
    ahead = deque(spans)
    for at in [at for at in tried if start <= at < until][:2_000]:
        while ahead and ahead[0][0] <= at:
            begun.append(ahead.popleft())
        begun = [span for span in begun if at < span[1]]
        inside = [entry for _, _, entry in begun]
        closure = found.at(at)
        assert (closure is not None) == bool(inside), render(at)
        if closure is not None:
            assert f"{document['entries'][min(inside)]['cron']!r}" in closure.entry, render(at)
            _, end = joined[bisect.bisect_right(joined, at, key=itemgetter(0)) - 1]
            assert closure.end == end or end >= until - 1 or not closure.sure, render(at)


# --- what becomes of instants ---------------------------------------------------------------------------------------

CREATED = 1_800_000_000 * SECOND + 123_456
LENGTH = 40 * MINUTE


@st.composite
def jobs(draw: st.DrawFn) -> tuple[JobSpec, list[tuple[int, int]], list[tuple[int, int]], int]:
    spec = JobSpec(
        task=Shell(command="true"),
        schedule=draw(
            st.sampled_from([CronSchedule(expression=text) for text in ("*/7 * * * * *", "* * * * *", "*/5 * * * *")])
            | st.integers(1, 400).map(lambda step: Interval(expression=step))
        ),
        overlap="allow",
        calendars=["c0"],
        excluded=draw(st.sampled_from(["skip", "next_open"])),
        catch_up=draw(st.sampled_from(["all", "last", "none"])),
        end_at=draw(
            st.none() | st.integers(60, 2_400).map(lambda end: render(CREATED // SECOND * SECOND + end * SECOND))
        ),
        jitter=draw(st.none() | st.sampled_from(["1s", "20s"])),
    )
    closed = [
        (begin, begin + length)
        for begin, length in draw(st.lists(st.tuples(st.integers(0, 2_200), st.integers(1, 600)), max_size=4))
    ]
    turns = draw(st.lists(st.integers(1, 2_399), max_size=6, unique=True).map(sorted))
    moments = [0, *turns, 2_400]
    present = [pair for place, pair in enumerate(pairwise(moments)) if place % 2 == 0]
    return spec, closed, [*present, (2_401, 2_401)], draw(st.sampled_from([1, 7, 10_000]))


def _clock(second: int) -> str:
    return render(CREATED // SECOND * SECOND + second * SECOND)


@given(jobs())
@settings(max_examples=2_000 if THOROUGH else 60, deadline=None)
def test_every_instant_is_a_run_outside_of_closures_or_part_of_a_row(
    story: tuple[JobSpec, list[tuple[int, int]], list[tuple[int, int]], int],
) -> None:
    spec, closed, present, most_instants = story
    found = closures({"entries": [{"from": _clock(begin), "to": _clock(end)} for begin, end in closed]})
    job = Job(
        id="j_1",
        tenant="t",
        spec=spec,
        version=1,
        state=JobState.ACTIVE,
        anchor=CREATED,
        next_fire_at=None,
        plan_at=None,
        created_at=CREATED,
        updated_at=CREATED,
    )
    first = next(planning.fires(job, CREATED), None)
    if first is None:
        return
    job = job.with_(next_fire_at=first, plan_at=first - 15 * SECOND)
    runs: list[Micros] = []
    excluded: list[Span] = []
    missed = 0
    for came, went in present:
        now, until = CREATED + came * SECOND, CREATED + went * SECOND
        while job.plan_at is not None and job.plan_at <= until:
            now = max(now, job.plan_at)
            plan = planning.plan(job, now, closures=found, most_instants=most_instants)
            assert plan.steps or plan.plan_at is None or plan.plan_at > now, "every step gets somewhere"
            for step in plan.steps:
                match step:
                    case PlannedFire(at):
                        runs.append(at)
                    case Span(_, last, count, Verdict.SKIPPED, reason):
                        assert "excluded by calendar 'c0'" in reason
                        assert last <= now, "decided when it falls due"
                        excluded.append(step)
                    case Span(_, _, count):
                        missed += count
            # What a restart leaves is what is stored.
            job = job.with_(
                next_fire_at=plan.next_fire_at,
                plan_at=plan.plan_at,
                fired=job.fired + plan.runs,
                deferred_fire=plan.deferred_fire,
            )
    over = CREATED + 2_401 * SECOND
    grid = CREATED // SECOND * SECOND

    def inside(at: Micros) -> bool:
        return any(grid + begin * SECOND <= at < grid + end * SECOND for begin, end in closed)

    due = list(_until(planning.fires(job, CREATED), over))
    shut = [at for at in due if inside(at)]
    ends = {_end(at, closed, grid) for at in shut} if spec.excluded == "next_open" else set[Micros]()
    ends = {end for end in ends if spec.ends is None or end <= spec.ends}
    expected = {at for at in due if not inside(at)} | {end for end in ends if end <= over}
    assert not any(inside(at) for at in runs)
    assert max(Counter(runs).values(), default=1) == 1
    assert sum(span.count for span in excluded) == len(shut)
    decided = [at for at in runs if at <= over]
    assert len(decided) + missed == len(expected)
    assert set(decided) <= expected
    if spec.catch_up == "all":
        assert set(decided) == expected, "no absence was longer than the catch-up window"
    if expected and spec.catch_up != "none":
        assert max(expected) in decided, "the newest runs, however late"


def _end(at: Micros, closed: list[tuple[int, int]], grid: Micros) -> Micros:
    while later := [end for begin, end in closed if grid + begin * SECOND <= at < grid + end * SECOND]:
        at = grid + max(later) * SECOND
    return at


def _until(instants: Iterator[Micros], last: Micros) -> Iterator[Micros]:
    for at in instants:
        if at > last:
            return
        yield at
