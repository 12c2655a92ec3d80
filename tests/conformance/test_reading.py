"""Reads for users: lists, pages, the ledger, and the current run of a job (I2, I23, I24)."""

import asyncio

import pytest

from tests.conformance.conftest import Connect
from tests.conformance.test_planning import FAR, claim, fire, read, submitted, write
from tests.support.builders import one_shot, plan_due, recurring, run, settlement
from timeball.domain.errors import Invalid, Unavailable
from timeball.domain.instant import HOUR, SECOND
from timeball.domain.job.job import JobState
from timeball.domain.planning.planning import Span
from timeball.domain.run.ledger import Verdict
from timeball.domain.run.lifecycle import Failed, Failure, Succeeded
from timeball.domain.run.status import Status
from timeball.domain.task.retry import Retry
from timeball.ports.store.jobs import Amendment, JobFilter
from timeball.ports.store.queries import RunFilter
from timeball.ports.store.store import Store
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Driver, Tx
from timeball.stores.sqlite.store import SqliteStore

BROKEN = Failed(Failure(kind="exit", message="", exit_code=1))


async def job_ids(store: Store, *status: str, limit: int = 2, **fields: str) -> list[str]:
    """All pages of a listing, put together."""
    found: list[str] = []
    cursor = None
    where = JobFilter(**{"tenant": "default", **fields}, status=frozenset(status))
    while True:
        page = await store.list_jobs(where, cursor, limit)
        assert len(page.items) <= limit
        found += [each.job.id for each in page.items]
        if (cursor := page.next_cursor) is None:
            return found


async def run_ids(store: Store, *status: Status, limit: int = 3, **fields: object) -> list[str]:
    found: list[str] = []
    cursor = None
    where = RunFilter(**{"tenant": "default", **fields}, status=frozenset(status))  # type: ignore[arg-type]
    while True:
        page = await store.list_runs(where, cursor, limit)
        found += [each.id for each in page.items]
        if (cursor := page.next_cursor) is None:
            return found


async def test_jobs_are_listed_by_what_they_come_to(store: Store) -> None:
    now = store.now()
    finished, pending, later = one_shot(now), one_shot(now, at=now + HOUR), recurring(now)
    paused, cancelled, foreign = recurring(now), recurring(now), recurring(now, tenant="other")
    await store.submit([finished])
    await store.settle([settlement(got) for got in await claim(store)])
    await store.submit([pending, later, paused, cancelled, foreign])
    for each, state in ((paused, JobState.PAUSED), (cancelled, JobState.CANCELLED)):
        await store.amend([Amendment(job=each.job, spec=each.job.spec, state=state, keep_schedule=True)])

    by_status = {
        "scheduled": [later.job.id, pending.job.id],
        "paused": [paused.job.id],
        "completed": [finished.job.id],
        "cancelled": [cancelled.job.id],
    }
    for status, expected in by_status.items():
        assert await job_ids(store, status) == expected
        assert await job_ids(store, status, limit=1) == expected
        assert {(await store.jobs(expected))[job_id].status for job_id in expected} == {status}
    everything = sorted((job_id for expected in by_status.values() for job_id in expected), reverse=True)
    assert await job_ids(store) == everything
    assert await job_ids(store, *by_status) == everything
    assert sorted(await job_ids(store, "scheduled", "completed", "paused")) == sorted(
        by_status["scheduled"] + by_status["completed"] + by_status["paused"]
    )


async def test_a_job_whose_last_run_is_alive_is_not_completed(store: Store) -> None:
    sent = one_shot(store.now())
    await store.submit([sent])
    (got,) = await claim(store)
    assert (await store.jobs([sent.job.id]))[sent.job.id].status == "scheduled"
    assert await job_ids(store, "scheduled") == [sent.job.id]
    await store.settle([settlement(got)])
    assert await job_ids(store, "scheduled") == []
    assert await job_ids(store, "completed") == [sent.job.id]


async def test_the_next_run_is_the_earliest_that_has_not_started(store: Store) -> None:
    now = store.now()
    pending, later = one_shot(now, at=now + HOUR), recurring(now, next_fire_at=now + 2 * HOUR)
    await store.submit([pending, later])
    found = await store.jobs([pending.job.id, later.job.id])
    assert found[pending.job.id].next_run_at == now + HOUR
    assert found[later.job.id].next_run_at == now + 2 * HOUR


async def test_jobs_are_found_by_name_user_task_and_tag(store: Store) -> None:
    now = store.now()
    sent = [
        one_shot(now, name="a", user_id="u", tags=["x", "y"]),
        one_shot(now, name="b", user_id="u", tags=["y"]),
        recurring(now, task=None, task_id="t", name="a"),
    ]
    await store.submit(sent)
    one, two, three = [each.job.id for each in sent]
    assert await job_ids(store, name="a") == [three, one]
    assert await job_ids(store, user_id="u") == [two, one]
    assert await job_ids(store, task_id="t") == [three]
    assert await job_ids(store, tag="y") == [two, one]
    assert await job_ids(store, "scheduled", tag="y", name="a", user_id="u") == [one]
    assert await job_ids(store, "completed", tag="y") == []
    assert await job_ids(store, tenant="other") == []


async def test_pages_of_runs_stay_in_order_while_runs_finish_and_appear(store: Store) -> None:
    sent = [one_shot(store.now()) for _ in range(10)]
    await store.submit(sent)
    first = await store.list_runs(RunFilter(tenant="default"), None, 4)
    await store.settle([settlement(got) for got in await claim(store)])
    await store.submit([one_shot(store.now())])
    second = await store.list_runs(RunFilter(tenant="default"), first.next_cursor, 4)
    third = await store.list_runs(RunFilter(tenant="default"), second.next_cursor, 4)
    seen = [each.id for page in (first, second, third) for each in page.items]
    assert seen == [each.runs[0].id for each in reversed(sent)]
    assert third.next_cursor is None


async def test_runs_are_listed_by_status(store: Store) -> None:
    now = store.now()
    retry = Retry(max_retries=1, backoff=["1h"])
    never = Retry(max_retries=0)
    done, failing, dying = one_shot(now), one_shot(now, retry=retry), one_shot(now, retry=never)
    await store.submit([done, failing, dying])
    outcomes = {done.job.id: Succeeded(), failing.job.id: BROKEN, dying.job.id: BROKEN}
    await store.settle([settlement(got, outcomes[got.job_id]) for got in await claim(store)])
    running, queued, scheduled = one_shot(now), one_shot(now), one_shot(now, at=now + HOUR)
    await store.submit([running])
    await claim(store)
    await store.submit([queued, scheduled])
    expected = {
        Status.SUCCEEDED: done,
        Status.RETRYING: failing,
        Status.DEAD: dying,
        Status.RUNNING: running,
        Status.QUEUED: queued,
        Status.SCHEDULED: scheduled,
    }
    for status, sent in expected.items():
        assert await run_ids(store, status) == [sent.runs[0].id]
        assert (await store.runs([sent.runs[0].id]))[sent.runs[0].id].status is status
    assert len(await run_ids(store)) == 6
    assert await run_ids(store, Status.SUCCEEDED, Status.QUEUED, limit=1) == [queued.runs[0].id, done.runs[0].id]
    assert await run_ids(store, Status.BLOCKED) == []
    assert await run_ids(store, tenant="other") == []


async def test_runs_are_found_by_job_time_user_tag_and_task(store: Store) -> None:
    now = store.now()
    mine = one_shot(now, at=now - HOUR, user_id="u", tags=["x"])
    other = one_shot(now, at=now + HOUR, task=None, task_id="t")
    await store.submit([mine, other])
    one, two = mine.runs[0].id, other.runs[0].id
    assert await run_ids(store, job_id=mine.job.id) == [one]
    assert await run_ids(store, user_id="u") == [one]
    assert await run_ids(store, tag="x") == [one]
    assert await run_ids(store, task_id="t") == [two]
    assert await run_ids(store, fire_from=now) == [two]
    assert await run_ids(store, fire_until=now) == [one]
    assert await run_ids(store, fire_from=now - HOUR, fire_until=now + HOUR + 1) == sorted([one, two], reverse=True)
    (got,) = await claim(store)
    await store.settle([settlement(got)])
    assert await run_ids(store, user_id="u", fire_until=now) == [one]


async def test_dead_letters_leave_when_they_are_retried(store: Store) -> None:
    sent = one_shot(store.now(), retry=Retry(max_retries=0))
    await store.submit([sent])
    await store.settle([settlement(got, BROKEN) for got in await claim(store)])
    assert await run_ids(store, dead_letters=True) == [sent.runs[0].id]
    await store.repeat([(sent.runs[0].id, run(sent.job, store.now()))])
    assert await run_ids(store, dead_letters=True) == []
    assert await run_ids(store, Status.DEAD) == [sent.runs[0].id]


async def test_the_current_run_is_the_one_that_started_last(store: Store) -> None:
    job = await submitted(store, 15 * SECOND)
    assert await store.current_run(job.id) is None
    await plan_due(store)
    first, second, _ = await read(store, job)

    async def current() -> str | None:
        found = await store.current_run(job.id)
        return found and found.id

    assert await current() == first.id
    (got,) = await claim(store)
    assert await current() == first.id
    await store.settle([settlement(got, at=store.now())])
    assert await current() == first.id
    (got,) = await claim(store)
    assert await current() == second.id
    await store.settle([settlement(got, at=store.now())])
    assert await current() == second.id


async def test_the_ledger_adds_up(store: Store) -> None:
    job = await submitted(store, 10 * SECOND, overlap="skip")
    assert job.next_fire_at is not None
    start = job.next_fire_at
    await write(store, job, Span(start, start + 4, 5, Verdict.MISSED, "m"), fire(start + 5), next_fire_at=start + 6)
    await write(store, job, fire(start + 6), fire(start + 7), next_fire_at=start + 8)
    await store.settle([settlement(got) for got in await claim(store)])
    await write(store, job, fire(start + 8), next_fire_at=FAR)
    await store.trigger([run(job, store.now())])  # skipped, but not an instant of the schedule

    sums = await store.ledger_sums(job.id, 0, FAR)
    assert sums.due == 9 == sum(sums.counts.values())
    assert sums.counts == {Verdict.MISSED: 5, Verdict.ON_TIME: 1, Verdict.SKIPPED: 2, Verdict.OPEN: 1}

    rows = []
    cursor = None
    while True:
        page = await store.ledger(job.id, 0, FAR, cursor, 2)
        rows += [(each.fire_time - start, each.fires) for each in page.items]
        if (cursor := page.next_cursor) is None:
            break
    assert rows == [(0, 5), (5, 1), (6, 2), (8, 1)]


async def test_what_was_on_time_but_not_due_is_not_in_the_sums(store: Store) -> None:
    job = await submitted(store, 10 * SECOND, overlap="allow")
    await write(store, job, fire(store.now()), next_fire_at=FAR)
    await store.trigger([run(job, store.now()) for _ in range(3)])
    claims = await claim(store)
    await store.settle([settlement(got, at=store.now()) for got in claims])
    done = await store.runs([got.run_id for got in claims])
    assert [each.verdict for each in done.values()] == [Verdict.ON_TIME] * 4
    sums = await store.ledger_sums(job.id, 0, FAR)
    assert (sums.due, sums.counts) == (1, {Verdict.ON_TIME: 1})


async def test_the_ledger_has_rows_that_reach_into_the_range_and_nothing_of_the_future(store: Store) -> None:
    job = await submitted(store, 10 * SECOND, overlap="allow")
    assert job.next_fire_at is not None
    start = job.next_fire_at
    await write(store, job, Span(start, start + 4, 5, Verdict.MISSED, "m"), fire(start + 5), fire(store.now() + HOUR))

    async def rows(since: int, until: int) -> list[int]:
        page = await store.ledger(job.id, since, until, None, 10)
        sums = await store.ledger_sums(job.id, since, until)
        assert sums.due == sum(each.fires for each in page.items)
        return [each.fire_time - start for each in page.items]

    assert await rows(0, FAR) == [0, 5]
    assert await rows(start + 2, FAR) == [0, 5]
    assert await rows(start + 5, FAR) == [5]
    assert await rows(start, start + 5) == [0]
    assert await rows(0, start) == []


async def test_a_cursor_nobody_gave_out_is_refused(store: Store) -> None:
    for cursor in ("", "x", "1", "-1:r", "9" * 30 + ":r"):
        with pytest.raises(Invalid, match="not a cursor"):
            await store.ledger("j", 0, 1, cursor, 1)


async def test_what_is_unknown_is_empty(store: Store) -> None:
    assert await store.runs(["r_1", "r_\x00"]) == {}
    assert await store.request_cancel(["r_\x00"]) == [None]
    assert await store.jobs(["j_\x00"]) == {}
    assert await store.current_run("j_\x00") is None
    assert await store.runs([]) == {}
    assert await store.jobs([]) == {}
    assert await store.attempts("r_1") == []
    assert await store.logs("r_1", None, 0, 10) == []
    assert (await store.ledger_sums("j_1", 0, FAR)).due == 0
    await store.ping()


ENDLESS = Query(
    "endless",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000000) SELECT max(i) FROM n",
)


async def test_slow_reads_hold_up_nobody_and_end(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many people ask for however much, the scheduler reads on, and they get an answer."""
    monkeypatch.setattr("timeball.stores.sqlite.store.SLOW_READ_TIMEOUT", SECOND)
    monkeypatch.setattr("timeball.stores.postgres.store.SLOW_READ_TIMEOUT", 1.0)
    store = await connect()

    async def work(tx: Tx) -> None:
        await tx.fetch(ENDLESS)

    db: Driver = store._db  # type: ignore[attr-defined]
    slow = [asyncio.create_task(db.read(work, slow=True)) for _ in range(8)]
    await asyncio.sleep(0.1)
    rounds = 0
    while not any(task.done() for task in slow):
        await store.due_jobs(1)
        await store.holding("w_1")
        await store.submit([one_shot(store.now())])
        rounds += 1
        await asyncio.sleep(0.1)
    assert rounds > 1
    answers = await asyncio.gather(*slow, return_exceptions=True)
    assert [type(answer) for answer in answers] == [Unavailable] * 8
    assert "takes too long" in str(answers[0])
    assert len((await store.list_jobs(JobFilter(tenant="default"), None, 100)).items) == rounds


async def test_a_slow_read_does_not_hold_up_the_end(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timeball.stores.sqlite.store.SLOW_READ_TIMEOUT", 1_000 * SECOND)
    store = await connect()

    async def work(tx: Tx) -> None:
        await tx.fetch(ENDLESS)

    reading = asyncio.create_task(store._db.read(work, slow=True))  # type: ignore[attr-defined]
    await asyncio.sleep(0.1)
    if isinstance(store, SqliteStore):
        await asyncio.wait_for(store.close(), 60)
    else:
        reading.cancel()
    answers = await asyncio.gather(reading, return_exceptions=True)
    assert isinstance(answers[0], Unavailable | asyncio.CancelledError)
