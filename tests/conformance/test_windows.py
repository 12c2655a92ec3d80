"""Jobs with windows get slots that are spread evenly, and keep them, on every store."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from tests.conformance.conftest import Connect
from tests.support.builders import TENANT, bits
from timeball import system
from timeball.domain import ids
from timeball.domain.errors import InvalidSchedule
from timeball.domain.instant import DAY, HOUR, SECOND, render
from timeball.domain.job.job import Job, JobSpec
from timeball.domain.planning import planning
from timeball.domain.schedule.schedule import CronSchedule, Schedule, Window
from timeball.domain.schedule.window_slots import minute_of
from timeball.domain.task.task import Shell
from timeball.operation.context import OperationContext
from timeball.operation.jobs.pause import pause, resume
from timeball.operation.jobs.submit import Created, NewJob, Submit
from timeball.operation.jobs.update import update
from timeball.operation.runs.cancel import cancel_job
from timeball.ports.store.jobs import Accepted, JobFilter, Submission
from timeball.ports.store.store import Store
from timeball.server.wakeups import LocalWakeups
from timeball.stores.sql.jobs.window_slots import SLOT_LOADS
from timeball.stores.sql.part import StorePart

NIGHT: Window = msgspec.convert({"type": "window", "from": "01:00", "to": "05:00"}, Schedule)
LATER: Window = msgspec.convert({"type": "window", "from": "22:00", "to": "02:00", "timezone": "Asia/Tokyo"}, Schedule)


def context_of(store: Store) -> OperationContext:
    return OperationContext(store, system.SystemClock(), system.rng(), LocalWakeups(lambda _: None))


async def create(store: Store, windows: Sequence[Any], **rest: Any) -> list[Job]:
    new = [NewJob(TENANT, JobSpec(task=Shell(command="true"), schedule=each, **rest)) for each in windows]
    answers = await Submit(context_of(store), lambda status: str(status.job.slot).encode())(new)
    jobs = [answer.job.job for answer in answers if isinstance(answer, Created) and answer.job is not None]
    assert len(jobs) == len(windows)
    return jobs


async def slots(store: Store) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    cursor: str | None = None
    while True:
        page = await store.list_jobs(JobFilter(tenant=TENANT), cursor, 500)
        found |= {each.job.id: each.job.slot for each in page.items}
        cursor = page.next_cursor
        if cursor is None:
            return found


async def loads(store: Store) -> dict[int, int]:
    """What is counted; it must be what a recount comes to (I23)."""
    assert isinstance(store, StorePart)

    async def read(tx: Any) -> dict[int, int]:
        return {minute: jobs for minute, jobs in await tx.fetch(SLOT_LOADS) if jobs}

    counted: dict[int, int] = await store._db.read(read)
    recount: Counter[int] = Counter()
    page = await store.list_jobs(JobFilter(tenant=TENANT), None, 5_000)
    for each in page.items:
        if each.job.slot is not None and isinstance(each.job.spec.schedule, Window):
            recount[minute_of(each.job.spec.schedule, each.job.slot)] += 1
    assert counted == dict(recount)
    return counted


async def test_a_thousand_jobs_spread_evenly_and_keep_their_slots(connect: Connect) -> None:
    store, other = await connect(), await connect()
    jobs = await create(store, [NIGHT] * 700)
    more = await asyncio.gather(*(create((store, other)[at % 2], [NIGHT] * 30) for at in range(10)))
    jobs += [job for batch in more for job in batch]
    taken = sorted(job.slot for job in jobs if job.slot is not None)
    assert len(taken) == 1_000
    assert set(Counter(slot // 60 for slot in taken).values()) == {4, 5}
    assert max(later - slot for slot, later in pairwise([3_600, *taken, 5 * 3_600])) <= 15
    assert len(await loads(store)) == 240
    for job in jobs[:20]:
        assert job.next_fire_at is not None
        assert job.slot is not None
        assert job.next_fire_at // SECOND % 86_400 == job.slot
    before = await slots(store)
    assert before == {job.id: job.slot for job in jobs}

    reopened = await connect()
    context = context_of(reopened)
    for job in jobs[:5]:
        await cancel_job(context, TENANT, job.id)
    for job in jobs[5:8]:
        await update(context, TENANT, job.id, lambda spec: msgspec.structs.replace(spec, schedule=LATER))
    await update(
        context, TENANT, jobs[8].id, lambda spec: msgspec.structs.replace(spec, schedule=CronSchedule("0 3 * * *"))
    )
    await update(context, TENANT, jobs[9].id, lambda spec: msgspec.structs.replace(spec, name="another", tags=["x"]))
    await pause(context, TENANT, jobs[10].id)
    await resume(context, TENANT, jobs[10].id)
    await create(reopened, [NIGHT, LATER, NIGHT])
    after = await slots(reopened)
    assert all(after[job.id] == before[job.id] for job in jobs[9:]), "edits of others move nobody"
    assert all(after[job.id] is None for job in (*jobs[:5], jobs[8]))
    moved = [after[job.id] for job in jobs[5:8]]
    assert all(slot is not None and (slot >= 22 * 3_600 or slot < 2 * 3_600) for slot in moved)
    assert len(set(moved)) == 3
    counted = await loads(reopened)
    assert sum(counted.values()) == 1_000 - 5 - 1 + 3


async def test_a_new_slot_counts_from_the_edit_on(store: Store) -> None:
    [job] = await create(store, [CronSchedule("0 3 * * *")])
    found = await update(context_of(store), TENANT, job.id, lambda spec: msgspec.structs.replace(spec, schedule=NIGHT))
    edited = found.job
    assert edited.slot is not None
    assert edited.next_fire_at is not None
    assert edited.next_fire_at // SECOND % 86_400 == edited.slot
    assert edited.next_fire_at > edited.updated_at
    again = await update(context_of(store), TENANT, job.id, lambda spec: msgspec.structs.replace(spec, schedule=NIGHT))
    assert again.job.version == edited.version
    assert await loads(store) == {minute_of(NIGHT, edited.slot): 1}


async def test_other_jobs_are_avoided(store: Store) -> None:
    """Those that fire at fixed times in the coming window are part of what is going on."""
    hour = 1 if 6 * HOUR <= store.now() % DAY < 20 * HOUR else 13  # a fire of today may be over already
    await create(store, [CronSchedule(f"{minute} {hour} * * *") for minute in range(30)])
    half: Window = msgspec.convert({"type": "window", "from": f"{hour:02}:00", "to": f"{hour + 1:02}:00"}, Schedule)
    jobs = await create(store, [half] * 30)
    assert sorted(job.slot // 60 for job in jobs if job.slot is not None) == [hour * 60 + at for at in range(30, 60)]
    assert (await store.slot_for(half)) // 60 in range(hour * 60, hour * 60 + 60)


async def test_a_repetition_gets_the_slot_that_it_was_told(store: Store) -> None:
    submit = Submit(context_of(store), lambda status: str(status.job.slot).encode())
    spec = JobSpec(task=Shell(command="true"), schedule=NIGHT)
    new = NewJob(TENANT, spec, "key", "fingerprint")
    [first] = await submit([new])
    [again] = await submit([new])
    assert isinstance(first, Created)
    assert isinstance(again, Created)
    assert first.job is not None
    assert first.answer == again.answer == str(first.job.job.slot).encode()
    assert again.job_id == first.job_id
    assert sum((await loads(store)).values()) == 1


async def test_a_slot_that_leaves_no_fire_refuses_that_job_alone(store: Store) -> None:
    over = render(store.now() + SECOND)
    submit = Submit(context_of(store), lambda status: b"")
    new = [
        NewJob(TENANT, JobSpec(task=Shell(command="true"), schedule=NIGHT), "first", "f"),
        NewJob(TENANT, JobSpec(task=Shell(command="true"), schedule=NIGHT, end_at=over), "second", "f"),
    ]
    accepted, refused = await submit(new)
    assert isinstance(accepted, Created)
    if isinstance(refused, Created):  # the slot is within the second
        return
    assert isinstance(refused, InvalidSchedule)
    assert [problem.pointer for problem in refused.problems] == ["/endAt"]
    assert (await slots(store)).keys() == {accepted.job_id}
    assert sum((await loads(store)).values()) == 1
    [again] = await submit(new[1:])
    assert isinstance(again, InvalidSchedule), "its key was not used up"


async def test_what_is_sent_again_keeps_the_slot_that_it_got(store: Store) -> None:
    """After a commit whose answer was lost (I14)."""
    job, _ = planning.begin(
        ids.job(store.now(), bits), TENANT, JobSpec(task=Shell("true"), schedule=NIGHT), store.now()
    )
    [first] = await store.submit([Submission(job, ())])
    await create(store, [NIGHT] * 3)
    [again] = await store.submit([Submission(job, ())])
    assert isinstance(first, Accepted)
    assert isinstance(again, Accepted)
    assert first.placed is not None
    assert again.placed is not None
    assert again.placed.slot == first.placed.slot == (await slots(store))[job.id]
    assert sum((await loads(store)).values()) == 4
