"""Calendars on every store: a transaction that plans and one that changes a calendar exclude each other (I2, I5,
I11)."""

import asyncio
import random
from collections import Counter

import msgspec
import pytest

from tests.conformance.conftest import Connect, Tamper
from tests.conformance.test_planning import claim, current, read, until
from tests.support.builders import TENANT, bits, recurring, settlement
from timeball import system
from timeball.domain import ids
from timeball.domain.errors import Conflict, PreconditionFailed
from timeball.domain.instant import HOUR, MILLISECOND, MINUTE, SECOND, Micros, render
from timeball.domain.planning import planning
from timeball.domain.run.ledger import Verdict
from timeball.domain.schedule.calendar import Calendar, NamedCalendar
from timeball.domain.schedule.closed_times import Closures
from timeball.operation.context import OperationContext
from timeball.operation.jobs.pause import pause
from timeball.operation.jobs.submit import Created, NewJob, Submit
from timeball.operation.schedules.closed_times import closures_of
from timeball.operation.schedules.put_calendar import put_calendar
from timeball.ports.store.jobs import Accepted, NoCalendar, Submission
from timeball.ports.store.store import Store
from timeball.server.loops.planner import Planner
from timeball.server.wakeups import LocalWakeups


def frozen(*spans: tuple[Micros, Micros]) -> Calendar:
    entries = [{"from": render(begin), "to": render(end), "reason": "freeze"} for begin, end in spans]
    return msgspec.convert({"entries": entries}, Calendar)


def named(calendar: Calendar, name: str = "freeze") -> NamedCalendar:
    return NamedCalendar(tenant=TENANT, name=name, calendar=calendar, version=1, updated_at=0)


async def test_calendars_are_kept_by_tenant_and_name(store: Store) -> None:
    first = (await store.put_calendar(named(frozen()))).calendar
    again = (await store.put_calendar(named(frozen()))).calendar
    assert (first.version, again) == (1, first), "nothing changed"
    changed = (await store.put_calendar(named(frozen((HOUR, 2 * HOUR))))).calendar
    assert (changed.version, changed.updated_at > first.updated_at) == (2, True)
    await store.put_calendar(named(frozen(), "other"))
    assert await store.calendars([(TENANT, "freeze"), (TENANT, "gone"), ("else", "freeze")]) == {
        (TENANT, "freeze"): changed
    }
    page = await store.list_calendars(TENANT, None, 1)
    assert [each.name for each in page.items] == ["freeze"]
    assert [each.name for each in (await store.list_calendars(TENANT, page.next_cursor, 10)).items] == ["other"]
    assert (await store.list_calendars("else", None, 10)).items == []
    assert not await store.delete_calendar("else", "freeze")
    assert await store.delete_calendar(TENANT, "freeze")


async def test_a_calendar_is_replaced_only_at_the_expected_version(store: Store) -> None:
    other = frozen((HOUR, 2 * HOUR))
    with pytest.raises(PreconditionFailed, match="there is no calendar 'freeze'"):
        await store.put_calendar(named(other), if_match=1)
    assert (await store.put_calendar(named(frozen()))).calendar.version == 1
    assert (await store.put_calendar(named(other), if_match=1)).calendar.version == 2
    assert (await store.put_calendar(named(other), if_match=1)).calendar.version == 2, "a repeated request"
    with pytest.raises(PreconditionFailed, match="at version 2, not 1"):
        await store.put_calendar(named(frozen()), if_match=1)
    assert (await store.calendars([(TENANT, "freeze")]))[(TENANT, "freeze")].calendar == other


async def test_a_submission_without_its_calendar_fails_alone(store: Store) -> None:
    await store.put_calendar(named(frozen()))
    sent = [recurring(store.now(), calendars=names) for names in (["freeze"], ["gone"], [])]
    answers = await store.submit(sent)
    assert [type(each) for each in answers] == [Accepted, NoCalendar, Accepted]
    assert (await store.jobs([each.job.id for each in sent])).keys() == {sent[0].job.id, sent[2].job.id}
    with pytest.raises(Conflict, match=f"1 job: {sent[0].job.id}"):
        await store.delete_calendar(TENANT, "freeze")


async def test_a_plan_that_was_made_with_another_calendar_changes_nothing(store: Store) -> None:
    old = (await store.put_calendar(named(frozen()))).calendar
    sent = recurring(store.now(), next_fire_at=store.now() + 5 * SECOND, calendars=["freeze"])
    await store.submit([sent])
    plan = planning.plan(sent.job, store.now(), closures=Closures([old]))
    assert plan.runs == 1
    await store.put_calendar(named(frozen((store.now() - HOUR, store.now() + HOUR))))
    assert await store.commit_plans([plan], [[ids.run(store.now(), bits)]]) == []
    assert await read(store, sent.job) == []


async def test_what_was_planned_under_the_old_calendar_is_given_back(store: Store) -> None:
    context = OperationContext(store, system.SystemClock(), random.Random(1), LocalWakeups(lambda _: None))
    old = (await store.put_calendar(named(frozen()))).calendar
    near = store.now() + 5 * SECOND
    sent = recurring(store.now(), next_fire_at=near, calendars=["freeze"])
    await store.submit([sent])
    await store.commit_plans([planning.plan(sent.job, store.now(), closures=Closures([old]))], [["r_1"]])
    assert [run.id for run in await read(store, sent.job)] == ["r_1"]
    await put_calendar(context, TENANT, "freeze", frozen((store.now() - HOUR, near + HOUR)))
    assert await read(store, sent.job) == []
    job = await current(store, sent.job)
    assert (job.next_fire_at, job.fired, job.version) == (near, 0, 1)
    assert job.plan_at is not None
    assert job.plan_at <= store.now()
    found = (await closures_of(context, [job]))[job.id]
    later = planning.plan(job, store.now(), closures=found)
    assert (later.steps, later.plan_at) == ((), near), "decided when it falls due"


async def test_a_freeze_between_loops_that_run(connect: Connect) -> None:
    """Two planners, a job that fires every second with either rule, and a freeze that comes, grows and goes: no run
    inside, every instant in the ledger once, one fire when it ends."""
    stores = [await connect(), await connect()]
    store = stores[0]
    clock = system.SystemClock()
    wakeups = LocalWakeups(lambda _: None)
    context = OperationContext(store, clock, random.Random(1), wakeups)
    planners = [
        Planner(OperationContext(each, clock, random.Random(at), wakeups), wakeups) for at, each in enumerate(stores)
    ]
    await put_calendar(context, TENANT, "freeze", frozen())
    submit = Submit(context, lambda _: b"")
    made = [
        NewJob(
            TENANT,
            msgspec.convert(
                {
                    "task": {"kind": "shell", "command": "true"},
                    "schedule": {"type": "cron", "expression": "* * * * * *"},
                    "overlap": "allow",
                    "calendars": ["freeze"],
                    "excluded": rule,
                },
                type(recurring(0).job.spec),
            ),
        )
        for rule in ("skip", "next_open")
    ]
    created = [each for each in await submit(made) if isinstance(each, Created)]
    jobs = [each.job.job for each in created if each.job is not None]
    assert len(jobs) == 2
    for planner in planners:
        planner.start()
    second = store.now() // SECOND * SECOND
    await until(store, second + 1_300 * MILLISECOND)
    begin, end = second + 2 * SECOND, second + 4 * SECOND + 500 * MILLISECOND
    await put_calendar(context, TENANT, "freeze", frozen((begin, end - SECOND)))
    acknowledged = store.now()
    await put_calendar(context, TENANT, "freeze", frozen((begin, end)))
    await until(store, end + 1_200 * MILLISECOND)
    for planner in planners:
        await planner.stop()
    assert acknowledged < begin
    over = second + 5 * SECOND
    for job, rule in zip(jobs, ("skip", "next_open"), strict=True):
        rows = [row for row in await read(store, job) if row.fire_time <= over]
        ran = [row.fire_time for row in rows if row.verdict is not Verdict.SKIPPED]
        assert not [at for at in ran if begin <= at < end]
        assert max(Counter(ran).values()) == 1
        skipped = [row for row in rows if row.verdict is Verdict.SKIPPED]
        assert [(row.fire_time, row.fire_until, row.fires) for row in skipped] == [(begin, second + 4 * SECOND, 3)]
        assert (end in ran) == (rule == "next_open")
        assert over in ran


async def test_who_changes_a_calendar_and_who_plans_exclude_each_other(connect: Connect) -> None:
    """Whatever the order, no run stands for an instant that was closed when the change was acknowledged (I11)."""
    planner, editor = await connect(), await connect()
    for _ in range(8):
        now = planner.now()
        near = now + 10 * SECOND
        await editor.put_calendar(named(frozen()))
        sent = [recurring(now, next_fire_at=near + at, calendars=["freeze"]) for at in range(20)]
        await planner.submit(sent)
        old = await planner.calendars([(TENANT, "freeze")])
        closures = Closures(list(old.values()))
        plans = [planning.plan(each.job, now, closures=closures) for each in sent]
        run_ids = [[ids.run(now, bits) for _ in plan.steps] for plan in plans]
        await asyncio.gather(
            planner.commit_plans(plans, run_ids),
            editor.put_calendar(named(frozen((now - HOUR, now + HOUR)))),
            planner.commit_plans(plans[::-1], run_ids[::-1]),
        )
        for each in sent:
            assert await read(planner, each.job) == []
            assert (await current(planner, each.job)).next_fire_at == each.job.next_fire_at


async def test_a_withdrawn_run_is_planned_again_when_the_freeze_is_lifted(store: Store) -> None:
    old = (await store.put_calendar(named(frozen()))).calendar
    near = store.now() + SECOND
    sent = recurring(store.now(), next_fire_at=near, calendars=["freeze"])
    await store.submit([sent])
    await store.commit_plans([planning.plan(sent.job, store.now(), closures=Closures([old]))], [["r_1"]])
    await store.put_calendar(named(frozen((near, near + MINUTE))))
    lifted = (await store.put_calendar(named(frozen()))).calendar
    job = await current(store, sent.job)
    await store.commit_plans([planning.plan(job, store.now(), closures=Closures([lifted]))], [["r_2"]])
    await until(store, near)
    [claimed] = await claim(store)
    assert (claimed.run_id, claimed.fire_time) == ("r_2", near)
    await store.settle([settlement(claimed)])


async def test_what_is_owed_is_fired_once_also_by_two_who_plan_at_once(store: Store) -> None:
    """The next instant of the schedule stays what it was when a fire that is owed becomes a run: that is no guard."""
    now = store.now()
    closed = (await store.put_calendar(named(frozen((now - HOUR, now + HOUR))))).calendar
    first = now - MINUTE
    sent = recurring(now, seconds=3_600, next_fire_at=first, calendars=["freeze"], excluded="next_open")
    await store.submit([Submission(sent.job.with_(anchor=first - HOUR), ())])
    job = await current(store, sent.job)
    await store.commit_plans([planning.plan(job, store.now(), closures=Closures([closed]))], [[ids.run(now, bits)]])
    owing = await current(store, sent.job)
    assert owing.deferred_fire == first
    lifted = (await store.put_calendar(named(frozen()))).calendar
    plans = [planning.plan(owing, store.now(), closures=Closures([lifted])) for _ in range(2)]
    assert [plan.next_fire_at for plan in plans] == [owing.next_fire_at] * 2
    committed = [await store.commit_plans([plan], [[ids.run(now, bits)]]) for plan in plans]
    assert committed == [[job.id], []]
    rows = await read(store, sent.job)
    assert [row.verdict for row in rows] == [Verdict.SKIPPED, Verdict.OPEN]
    assert (await current(store, sent.job)).fired == 1


async def test_a_calendar_that_cannot_be_read_stops_only_the_jobs_that_refer_to_it(
    store: Store, tamper: Tamper
) -> None:
    """A newer server may have written it: until somebody can read it, its jobs do not fire."""
    wakeups = LocalWakeups(lambda _: None)
    context = OperationContext(store, system.SystemClock(), random.Random(1), wakeups)
    for name in ("freeze", "fine"):
        await store.put_calendar(named(frozen(), name))
    now = store.now()
    sent = [recurring(now, next_fire_at=now, calendars=[name]) for name in ("freeze", "fine")]
    await store.submit(sent)
    await tamper("UPDATE calendars SET spec = '{\"entries\": [], \"moons\": 2}' WHERE name = 'freeze'")
    await Planner(context, wakeups).turn()
    unread, fine = [await read(store, each.job) for each in sent]
    assert unread == []
    assert fine
    assert [each.name for each in (await store.list_calendars(TENANT, None, 10)).items] == ["fine"]
    with pytest.raises(Conflict, match="cannot be read: freeze"):
        await pause(context, TENANT, sent[0].job.id)
