"""Calendars: no fire while they are closed, each in the ledger, and `next_open` fires once when they open (I2, I5)."""

from typing import Any

import msgspec
import pytest
from msgspec import structs

from tests.support.still import START, World
from timeball.domain import instant
from timeball.domain.errors import Conflict, Invalid
from timeball.domain.instant import HOUR, MINUTE, SECOND, Micros, render
from timeball.domain.planning import upcoming_fires
from timeball.domain.schedule import calendar_limits
from timeball.domain.schedule.calendar import Calendar, NamedCalendar
from timeball.domain.schedule.schedule import CronSchedule, Date, Immediate
from timeball.operation.jobs.pause import pause, resume
from timeball.operation.jobs.update import update
from timeball.operation.schedules.closed_times import closures_of_job, named_closures, with_open_fires
from timeball.operation.schedules.put_calendar import put_calendar
from timeball.ports.store.runs import SlotRequest

MINUTELY = CronSchedule(expression="* * * * *")


def minutes(*at: int) -> list[Micros]:
    return [START + minute * MINUTE for minute in at]


async def freeze(world: World, *spans: tuple[float, float], name: str = "freeze", reason: str = "") -> NamedCalendar:
    """Closed from a minute on until before another."""
    entries = [
        {"from": render(round(START + begin * MINUTE)), "to": render(round(START + end * MINUTE)), "reason": reason}
        for begin, end in spans
    ]
    calendar = msgspec.convert({"entries": entries}, Calendar)
    return await put_calendar(world.context, "default", name, calendar)


async def test_no_fire_runs_inside_and_each_is_in_the_ledger_with_its_reason(world: World) -> None:
    await freeze(world, (10, 20), reason="the warehouse moves")
    job = await world.create(MINUTELY, calendars=["freeze"])
    await world.live(30 * MINUTE, 10 * SECOND)
    assert await world.fired(job) == minutes(*range(1, 10), *range(20, 31))
    assert await world.ledger(job) == {"on_time": 20, "skipped": 10}
    [row] = [run for run in await world.runs(job) if run.fires > 1]
    assert (row.fire_time, row.fire_until, row.fires) == (START + 10 * MINUTE, START + 19 * MINUTE, 10)
    assert row.reason.startswith("excluded by calendar 'freeze': the warehouse moves (")


async def test_next_open_fires_once_when_it_ends(world: World) -> None:
    await freeze(world, (10.5, 14.5), (14.5, 20.5))
    job = await world.create(MINUTELY, calendars=["freeze"], excluded="next_open")
    await world.live(30 * MINUTE, 10 * SECOND)
    end = START + 20 * MINUTE + 30 * SECOND
    assert await world.fired(job) == sorted([*minutes(*range(1, 11), *range(21, 31)), end])
    assert await world.ledger(job) == {"on_time": 21, "skipped": 10}


async def test_next_open_is_one_fire_also_where_the_schedule_has_that_instant(world: World) -> None:
    await freeze(world, (10, 20))
    job = await world.create(MINUTELY, calendars=["freeze"], excluded="next_open")
    await world.live(25 * MINUTE, 10 * SECOND)
    assert await world.fired(job) == minutes(*range(1, 10), *range(20, 26))


@pytest.mark.parametrize("absent", [(12, 15), (12, 25), (5, 18), (19, 40)])
async def test_next_open_fires_once_also_across_an_absence(world: World, absent: tuple[int, int]) -> None:
    await freeze(world, (10.5, 20.5))
    job = await world.create(CronSchedule(expression="*/5 * * * *"), calendars=["freeze"], excluded="next_open")
    gone, back = absent
    await world.live(gone * MINUTE, 10 * SECOND)
    world.time = START + back * MINUTE
    await world.live((50 - back) * MINUTE, 10 * SECOND)
    deferred_fire = START + 20 * MINUTE + 30 * SECOND
    assert await world.fired(job) == sorted([*minutes(5, 10, 25, 30, 35, 40, 45, 50), deferred_fire])
    assert (await world.ledger(job))["skipped"] == 2


async def test_a_freeze_that_was_acknowledged_is_followed_by_no_fire(world: World) -> None:
    """The run for the next instant is made 15 s ahead: the freeze withdraws it."""
    await freeze(world)
    jobs = [await world.create(MINUTELY, calendars=["freeze"], excluded=rule) for rule in ("skip", "next_open")]
    world.time = START + 50 * SECOND
    await world.plan()
    for job in jobs:
        assert [run.fire_time for run in await world.runs(job)] == minutes(1)
        assert (await world.job(job)).fired == 1
    await freeze(world, (0.9, 5.1))
    for job in jobs:
        assert await world.runs(job) == []
        assert (await world.job(job)).fired == 0
    await world.live(6 * MINUTE, 5 * SECOND)
    skipping, waiting = jobs
    assert await world.fired(skipping) == minutes(6)
    assert await world.fired(waiting) == [START + 306 * SECOND, START + 6 * MINUTE]
    assert (await world.job(skipping)).version == 1, "nobody edited the job"


async def test_who_puts_a_calendar_waits_for_what_a_worker_already_has(world: World) -> None:
    await freeze(world)
    job = await world.create(MINUTELY, calendars=["freeze"])
    world.time = START + MINUTE - 200_000
    await world.plan()
    [claim] = (await world.store.claim([SlotRequest(await world.worker(), "w", 1)], 250_000)).claims
    assert claim.fire_time == START + MINUTE
    await freeze(world, (0.5, 5.5))
    assert world.time > START + MINUTE, "acknowledged only after the instant that could not be withdrawn"
    await world.live(5 * MINUTE, 10 * SECOND)
    assert (await world.ledger(job))["skipped"] == 4


async def test_a_freeze_that_is_lifted_owes_the_fire_at_once(world: World) -> None:
    await freeze(world, (10, 60))
    job = await world.create(CronSchedule(expression="*/15 * * * *"), calendars=["freeze"], excluded="next_open")
    await world.live(20 * MINUTE, 10 * SECOND)
    assert (await world.job(job)).deferred_fire == START + 15 * MINUTE
    assert (await world.job(job)).next_fire_at == START + 30 * MINUTE
    await freeze(world, (10, 21))
    await world.live(MINUTE, 10 * SECOND)
    assert await world.fired(job) == [START + 21 * MINUTE]
    await freeze(world, (25, 60))
    await world.live(19 * MINUTE, 10 * SECOND)
    await freeze(world)
    await world.work_off()
    await world.live(11 * MINUTE, 10 * SECOND)
    assert await world.fired(job) == minutes(21, 40, 45), "at 30 it was closed, at 40 it was opened"
    assert await world.ledger(job) == {"on_time": 3, "skipped": 2}


async def test_a_freeze_that_grows_keeps_what_is_owed(world: World) -> None:
    await freeze(world, (10, 20.5))
    job = await world.create(CronSchedule(expression="*/15 * * * *"), calendars=["freeze"], excluded="next_open")
    await world.live(20 * MINUTE + 20 * SECOND, 10 * SECOND)
    await freeze(world, (10, 22.5))
    await world.live(7 * MINUTE, 10 * SECOND)
    assert await world.fired(job) == [START + 22 * MINUTE + 30 * SECOND]


async def test_a_date_that_is_closed_is_skipped_or_moved(world: World) -> None:
    await freeze(world, (10, 20))
    date = Date(expression=render(START + 15 * MINUTE))
    skipped = await world.create(date, calendars=["freeze"])
    moved = await world.create(date, calendars=["freeze"], excluded="next_open")
    await world.live(16 * MINUTE, 10 * SECOND)
    assert await world.status(skipped) == "completed"
    assert await world.status(moved) == "scheduled"
    await world.live(16 * MINUTE, 10 * SECOND)
    assert await world.fired(skipped) == []
    assert await world.fired(moved) == minutes(20)
    assert await world.status(moved) == "completed"


async def test_what_a_person_wants_now_runs_now(world: World) -> None:
    await freeze(world, (0, 20))
    await world.live(MINUTE)
    at_once = await world.create(Immediate(), calendars=["freeze"])
    job = await world.create(MINUTELY, calendars=["freeze"])
    await world.trigger(job)
    await world.live(MINUTE, 10 * SECOND)
    assert await world.fired(at_once) == minutes(1)
    assert await world.fired(job) == minutes(1)


async def test_several_calendars_close_together_and_bounds_hold(world: World) -> None:
    await freeze(world, (3, 6), name="one")
    await freeze(world, (5, 9.5), name="other", reason="b")
    job = await world.create(MINUTELY, calendars=["one", "other"], excluded="next_open", max_runs=4)
    ended = await world.create(
        MINUTELY, calendars=["one", "other"], excluded="next_open", end_at=render(START + 9 * MINUTE)
    )
    await world.live(20 * MINUTE, 10 * SECOND)
    assert await world.fired(job) == [*minutes(1, 2), START + 570 * SECOND, START + 10 * MINUTE]
    assert await world.fired(ended) == minutes(1, 2)
    assert await world.ledger(ended) == {"on_time": 2, "skipped": 7}
    reasons = [run.reason for run in await world.runs(ended) if run.fires > 1]
    assert [reason.split("'")[1] for reason in reasons] == ["one", "other"]
    assert all("after endAt" in reason for reason in reasons)


async def test_the_newest_open_fire_runs_however_late(world: World) -> None:
    """The catch-up rule looks at fires that may run: those of a freeze are none (I20)."""
    await freeze(world, (120, 180.5))
    job = await world.create(MINUTELY, calendars=["freeze"], catch_up="last")
    world.time = START + 150 * MINUTE
    await world.work_off()
    assert await world.fired(job) == minutes(119)
    assert await world.ledger(job) == {"missed": 118, "skipped": 31, "caught_up": 1}


async def test_a_job_that_gives_up_its_calendar_gets_what_it_is_owed(world: World) -> None:
    await freeze(world, (10, 60))
    jobs = [
        await world.create(CronSchedule(expression="*/15 * * * *"), calendars=["freeze"], excluded="next_open")
        for _ in range(3)
    ]
    await world.live(20 * MINUTE, 10 * SECOND)
    free, skipping, renewed = jobs
    await world.edit(free, calendars=[])
    await world.edit(skipping, excluded="skip")
    await world.edit(renewed, schedule=CronSchedule(expression="*/20 * * * *"))
    await world.live(45 * MINUTE, 10 * SECOND)
    assert await world.fired(free) == minutes(20, 30, 45, 60)
    assert await world.fired(skipping) == minutes(60)
    assert await world.fired(renewed) == minutes(60)


async def test_a_pause_inside_a_freeze(world: World) -> None:
    await freeze(world, (10, 30.5))
    job = await world.create(
        CronSchedule(expression="*/5 * * * *"), calendars=["freeze"], excluded="next_open", catch_up="last"
    )
    await world.live(12 * MINUTE, 10 * SECOND)
    await pause(world.context, "default", job)
    await world.live(6 * MINUTE, 10 * SECOND)
    await resume(world.context, "default", job)
    await world.live(14 * MINUTE, 10 * SECOND)
    assert await world.fired(job) == [START + 5 * MINUTE, START + 30 * MINUTE + 30 * SECOND]
    assert (await world.ledger(job))["skipped"] == 5


async def test_the_next_fire_that_is_shown_is_an_open_one(world: World) -> None:
    await freeze(world, (10, 20.5))
    skipping = await world.create(MINUTELY, calendars=["freeze"])
    waiting = await world.create(MINUTELY, calendars=["freeze"], excluded="next_open")
    for passed in (9 * MINUTE + 30 * SECOND, 5 * MINUTE):
        await world.live(passed, 10 * SECOND)
        found = await world.store.jobs([skipping, waiting])
        shown = [each.next_run_at for each in await with_open_fires(world.context, [found[skipping], found[waiting]])]
        assert shown == [START + 21 * MINUTE, START + 20 * MINUTE + 30 * SECOND]
        for job, first in zip((skipping, waiting), shown, strict=True):
            known = await world.job(job)
            closures = await closures_of_job(world.context, known)
            coming = upcoming_fires.coming(known, world.time, closures)
            assert [next(coming), next(coming)] == [first, START + (22 if job == skipping else 21) * MINUTE]


async def test_unknown_calendars_are_refused_and_used_ones_stay(world: World) -> None:
    refused = await world.submit(MINUTELY, calendars=["frezee"])
    assert isinstance(refused, Invalid)
    assert [problem.pointer for problem in refused.problems] == ["/calendars/0"]
    await freeze(world)
    job = await world.create(MINUTELY, calendars=["freeze"], name="backup")
    with pytest.raises(Invalid, match="no calendar 'x'"):
        await world.edit(job, calendars=["freeze", "x"])
    with pytest.raises(Conflict, match=rf"used by 1 job: {job} \(backup\)"):
        await world.store.delete_calendar("default", "freeze")
    await world.edit(job, calendars=[])
    assert await world.store.delete_calendar("default", "freeze")
    assert not await world.store.delete_calendar("default", "freeze")


def closed(**calendar: Any) -> Any:
    return msgspec.convert(calendar, Calendar)


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({}, "either dates"),
        ({"dates": ["2026-12-25"], "cron": "* * * * *"}, "either dates"),
        ({"from": "2026-12-20T00:00"}, "either dates"),
        ({"dates": ["2026-02-30"]}, "not a date"),
        ({"dates": ["25.12.2026"]}, "write it like 2026-12-25"),
        ({"from": "2026-12-20T00:00", "to": "2026-12-20T00:00"}, "not after"),
        ({"from": "noon", "to": "2026-12-20T00:00"}, "not a time"),
        ({"cron": "61 * * * *", "for": "1h"}, "out of range"),
        ({"cron": "0 22 * * FRI", "for": "10s"}, "too short"),
    ],
)
def test_what_is_no_calendar(entry: dict[str, Any], complaint: str) -> None:
    with pytest.raises((msgspec.ValidationError, Invalid), match=complaint):
        list(calendar_limits.check(closed(entries=[entry])))


async def test_a_calendar_that_never_opens_is_refused(world: World) -> None:
    always = closed(entries=[{"cron": "*/30 * * * *", "for": "30m"}])
    with pytest.raises(Invalid, match="never open"):
        await put_calendar(world.context, "default", "always", always)
    with pytest.raises(msgspec.ValidationError, match="did you mean 'Europe/Berlin'"):
        closed(timezone="Berlin", entries=[])


async def test_calendars_that_are_never_open_together_are_refused(world: World) -> None:
    for name, days, length in (("week", "MON", "96h"), ("weekend", "FRI", "72h")):
        closed_then = closed(entries=[{"cron": f"0 0 * * {days}", "for": length}])
        await put_calendar(world.context, "default", name, closed_then)
    hourly = CronSchedule(expression="0 * * * *")
    refused = await world.submit(hourly, calendars=["week", "weekend"], excluded="next_open")
    assert isinstance(refused, Invalid)
    assert refused.problems[0].pointer == "/calendars"
    assert "never open at the same time" in refused.detail
    job = await world.create(hourly, calendars=["week"])
    with pytest.raises(Invalid, match="never open at the same time"):
        await update(world.context, "default", job, lambda spec: structs.replace(spec, calendars=["weekend", "week"]))
    with pytest.raises(Invalid, match="never open at the same time"):
        await named_closures(world.context, "default", ["week", "weekend"])


async def test_a_weekend_in_a_zone(world: World) -> None:
    """From Friday 22:00 on, 58 hours: until Monday 08:00 in Berlin."""
    weekend = closed(timezone="Europe/Berlin", entries=[{"cron": "0 22 * * FRI", "for": "58h"}])
    await put_calendar(world.context, "default", "weekend", weekend)
    job = await world.create(CronSchedule(expression="0 * * * *"), calendars=["weekend"], excluded="next_open")
    world.time = START  # Friday, 15 January 2027, 08:00 UTC
    known = await world.job(job)
    closures = await closures_of_job(world.context, known)
    assert closures.at(instant.parse("2027-01-15T20:59:59Z")) is None
    inside = closures.at(instant.parse("2027-01-15T21:00:00Z"))
    assert inside is not None
    assert render(inside.end) == "2027-01-18T07:00:00Z"
    assert inside.reason == "excluded by calendar 'weekend': 2d10h from '0 22 * * FRI' on"
    assert closures.at(inside.end) is None
    assert closures.at(inside.end - HOUR) is not None
