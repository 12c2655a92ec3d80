"""Retention deletes old history by days: completely, after counting it, and nothing that is still needed."""

from collections.abc import Sequence
from functools import partial

import pytest
import pytest_asyncio

from tests.conformance.conftest import Tamper
from tests.conformance.test_lists import driver, finished, run_id
from tests.conformance.test_ordering_keys import BOOM, NO_RETRIES, claim
from tests.conformance.test_settling import chunk
from tests.support.builders import one_shot, recurring, run, settlement
from tests.support.day_ranges import leading, patiently, prepare_days
from timeball.domain.instant import DAY, HOUR, MINUTE, SECOND, Micros
from timeball.domain.job.job import JobState
from timeball.domain.planning.planning import JobPlan, Span
from timeball.domain.retention import day_of
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.status import Status
from timeball.domain.task.retry import Retry
from timeball.ports.store.jobs import Amended, Amendment, Idempotency, Submission
from timeball.ports.store.runs import Claim
from timeball.ports.store.store import Store
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.schema.runs import HISTORY, HistoryRow
from timeball.stores.sql.schema.table import as_tuple

MONTH = 30 * DAY


@pytest_asyncio.fixture(params=["in the rest", "on its own"], loop_scope="session")
async def past(request: pytest.FixtureRequest, store: Store) -> Micros:
    """A day that is long over, some hours after its begin. Where days are apart, it is on its own, or is not."""
    day = day_of(store.now()) - 40 * DAY
    if request.param == "on its own":
        await prepare_days(store, [day])
    return day + 3 * HOUR


async def prune(store: Store, *, limit: int = 2) -> None:
    """Everything that may go."""
    before, lead = store.now() - MONTH, await leading(store)
    for day in await store.days_to_prune(before, 100):
        for _ in range(100):
            if not await patiently(partial(store.prune_day, lead, day, before, limit)):
                break
        else:
            pytest.fail("it never ends")


async def ended(store: Store, sent: Sequence[Submission]) -> list[Claim]:
    """Submit jobs, and let their runs succeed at once."""
    await store.submit(sent)
    claims = await claim(store, 100)
    await store.settle([settlement(each) for each in claims])
    return claims


async def remember(store: Store, rows: Sequence[HistoryRow]) -> None:
    async def work(tx: Tx) -> None:
        await tx.insert(HISTORY, [as_tuple(row) for row in rows])

    await driver(store).write(work)


async def test_what_ended_long_ago_goes_with_all_that_belongs_to_it(store: Store, past: Micros) -> None:
    old, new = one_shot(past, retry=Retry(max_retries=1, backoff="fixed", base="0s")), one_shot(store.now())
    await store.submit([old, new])
    by_run = {each.run_id: each for each in await claim(store)}
    first = by_run[old.runs[0].id]
    await store.settle([settlement(first, BOOM)])
    (second,) = await claim(store)
    for each in (second, by_run[new.runs[0].id]):
        await store.append_logs("w_1", [chunk(each, seq, "line") for seq in range(3)], 7)
        await store.settle([settlement(each)])
    assert len(await store.attempts(old.runs[0].id)) == 1

    await prune(store)

    assert list(await store.runs([old.runs[0].id, new.runs[0].id])) == [new.runs[0].id]
    assert await store.attempts(old.runs[0].id) == []
    assert await store.logs(old.runs[0].id, None, 0, 10) == []
    assert len(await store.logs(new.runs[0].id, None, -1, 10)) == 3
    assert await store.days_to_prune(store.now() - MONTH, 10) == []


async def test_daily_sums_outlive_what_they_count(store: Store, past: Micros) -> None:
    """Also while it goes: at no moment does an instant count twice, or not at all."""
    sent = recurring(past)
    await store.submit([sent])
    spans = {"status": "skipped", "verdict": "skipped", "fires": 4, "fire_until": past + 3 * MINUTE}
    rows = [finished(sent.job, past + at * SECOND, at) for at in range(5)]
    rows += [finished(sent.job, past + 5 * SECOND, 5, verdict="late"), finished(sent.job, past, 6, **spans)]
    rows += [finished(sent.job, past, 7, origin="manual"), finished(sent.job, past + 20 * DAY, 8)]
    await remember(store, rows)

    async def sums(since: Micros, until: Micros) -> dict[Verdict, int]:
        counted = await store.ledger_sums(sent.job.id, since, until)
        assert counted.due == sum(counted.counts.values())
        return counted.counts

    everything = {Verdict.ON_TIME: 6, Verdict.LATE: 1, Verdict.SKIPPED: 4}
    before, lead, steps = store.now() - MONTH, await leading(store), 0
    assert await sums(0, store.now()) == everything
    (day,) = await store.days_to_prune(before, 10)
    while await patiently(partial(store.prune_day, lead, day, before, 2)):
        assert await sums(0, store.now()) == everything
        steps += 1
    assert steps >= 4
    assert await sums(0, store.now()) == everything
    assert await sums(day, day + 1) == {Verdict.ON_TIME: 5, Verdict.LATE: 1, Verdict.SKIPPED: 4}
    assert await sums(day + DAY, store.now()) == {Verdict.ON_TIME: 1}
    assert [run.id for run in (await store.ledger(sent.job.id, 0, store.now(), None, 10)).items] == [rows[-1].id]


async def test_sums_of_a_day_grow_when_more_of_it_goes(store: Store, past: Micros) -> None:
    sent = recurring(store.now())
    await store.submit([sent])
    for number in range(3):
        await remember(store, [finished(sent.job, past + number, number)])
        await prune(store)
    assert (await store.ledger_sums(sent.job.id, 0, store.now())).counts == {Verdict.ON_TIME: 3}


async def test_a_ledger_row_stays_while_fires_are_added_to_it(store: Store, past: Micros, tamper: Tamper) -> None:
    """I2, I23: fires that were never run share a row, which may be much older than the newest of them."""
    sent, now = recurring(past, seconds=3_600, next_fire_at=past), store.now()
    await store.submit([sent])
    spans = Span(past, past + HOUR, 2, Verdict.MISSED, "m"), Span(now - DAY, now - HOUR, 24, Verdict.MISSED, "m")
    for span in spans:
        job = (await store.jobs([sent.job.id]))[sent.job.id].job
        plan = JobPlan(job, (span,), span.last + HOUR, span.last + HOUR)
        assert await store.commit_plans([plan], [[run_id(span.first, 1)]])
        if span is spans[0]:
            await tamper(f"UPDATE history SET finished_at = {past + HOUR} WHERE job_id = '{sent.job.id}'")

    async def lately() -> tuple[dict[Verdict, int], list[int]]:
        rows = await store.ledger(sent.job.id, now - 2 * DAY, now, None, 10)
        sums = await store.ledger_sums(sent.job.id, now - 2 * DAY, now)
        return sums.counts, [each.fires for each in rows.items]

    await prune(store)
    assert await lately() == ({Verdict.MISSED: 26}, [26])

    await tamper(f"UPDATE history SET finished_at = {past + DAY} WHERE job_id = '{sent.job.id}'")
    await prune(store)
    assert (await store.ledger_sums(sent.job.id, 0, now)).counts == {Verdict.MISSED: 26}, "it is counted when it goes"


async def test_one_shots_go_with_their_last_run_and_schedules_stay(store: Store, past: Micros) -> None:
    gone, run_again, scheduled = one_shot(past, tags=["t"]), one_shot(past), recurring(store.now())
    await ended(store, [gone, run_again])
    await store.trigger([run(run_again.job, store.now())])
    await store.submit([scheduled])
    await remember(store, [finished(scheduled.job, past, 1)])
    await prune(store)
    ids_ = [each.job.id for each in (gone, run_again, scheduled)]
    assert set(await store.jobs(ids_)) == {run_again.job.id, scheduled.job.id}


async def test_a_one_shot_that_waits_to_be_resumed_stays(store: Store, past: Micros) -> None:
    """Its only run so far was triggered by hand."""
    sent = one_shot(past)
    waiting = sent.job.with_(next_fire_at=store.now() + DAY)
    await store.submit([Submission(waiting, sent.runs)])
    (claimed,) = await claim(store)
    await store.settle([settlement(claimed)])
    paused = Amendment(job=waiting, spec=waiting.spec, state=JobState.PAUSED, keep_schedule=True)
    assert isinstance((await store.amend([paused]))[0], Amended)
    await prune(store)
    assert await store.runs([claimed.run_id]) == {}
    assert waiting.id in await store.jobs([waiting.id])


async def test_one_that_has_the_turn_stays_until_somebody_deals_with_it(store: Store, past: Micros) -> None:
    """I16: those behind it wait for that, however long; and they do not wait for ever."""
    dead, behind = (one_shot(past, at=past + at, ordering_key="k", retry=NO_RETRIES) for at in range(2))
    await store.submit([dead, behind])
    (claimed,) = await claim(store)
    await store.append_logs("w_1", [chunk(claimed, 0, "why")], 7)
    await store.settle([settlement(claimed, BOOM)])
    await prune(store)
    assert (await store.runs([claimed.run_id]))[claimed.run_id].status is Status.DEAD
    assert len(await store.logs(claimed.run_id, None, -1, 10)) == 1
    assert await claim(store) == [], "the next one waits"
    assert dead.job.id in await store.jobs([dead.job.id])

    assert await store.discard([claimed.run_id]) == [True]
    (next_one,) = await claim(store)
    assert next_one.run_id == behind.runs[0].id
    await store.settle([settlement(next_one)])
    await prune(store)
    assert await store.runs([claimed.run_id, next_one.run_id]) == {}
    assert await store.jobs([dead.job.id, behind.job.id]) == {}


async def test_what_is_retried_after_a_month_inherits_the_turn(store: Store, past: Micros) -> None:
    dead, behind = (one_shot(past, at=past + at, ordering_key="k", retry=NO_RETRIES) for at in range(2))
    await store.submit([dead, behind])
    (claimed,) = await claim(store)
    await store.settle([settlement(claimed, BOOM)])
    await prune(store)
    again = run(dead.job, store.now(), origin=Origin.RETRY, retry_of=claimed.run_id)
    assert await store.repeat([(claimed.run_id, again)]) == [Status.QUEUED]
    assert [each.run_id for each in await claim(store)] == [again.id]


async def test_what_is_alive_keeps_its_past_and_is_kept_for_a_while_when_it_ends(store: Store, past: Micros) -> None:
    sent = one_shot(past, retry=Retry(max_retries=2, backoff="fixed", base="0s"))
    await store.submit([sent, one_shot(past)])
    for claimed in await claim(store):
        await store.append_logs("w_1", [chunk(claimed, 0, "line")], 7)
        await store.settle([settlement(claimed, BOOM if claimed.run_id == sent.runs[0].id else None)])
    await prune(store)
    run_id = sent.runs[0].id
    assert len(await store.attempts(run_id)) == 1
    assert len(await store.logs(run_id, None, -1, 10)) == 1
    (claimed,) = await claim(store)
    await store.settle([settlement(claimed, at=store.now())])
    await prune(store)
    assert (await store.runs([run_id]))[run_id].status is Status.SUCCEEDED
    assert len(await store.attempts(run_id)) == 1
    assert len(await store.logs(run_id, None, -1, 10)) == 1


async def test_what_ended_lately_stays_when_its_day_goes(store: Store, past: Micros) -> None:
    lately, long_ago = one_shot(past), one_shot(past)
    await store.submit([lately, long_ago])
    for claimed in await claim(store):
        await store.append_logs("w_1", [chunk(claimed, 0, "line")], 7)
        await store.settle([settlement(claimed, at=store.now() if claimed.run_id == lately.runs[0].id else past)])
    await prune(store)
    assert list(await store.runs([lately.runs[0].id, long_ago.runs[0].id])) == [lately.runs[0].id]
    assert len(await store.logs(lately.runs[0].id, None, -1, 10)) == 1
    assert list(await store.jobs([lately.job.id, long_ago.job.id])) == [lately.job.id]


async def test_keys_outlive_their_jobs(store: Store, past: Micros) -> None:
    key = Idempotency(key="k", fingerprint="f", answer=b"a")
    one = one_shot(past)
    await ended(store, [Submission(one.job, one.runs, key)])
    lead, now = await leading(store), store.now()
    assert await store.forget_keys(lead, now, 10) == 0, "its job is there"
    await prune(store)
    assert await store.forget_keys(lead, past, 10) == 0, "it is not old enough"
    assert await store.answered([("default", "k", "f")]) != [None]
    assert await store.forget_keys(lead, now, 10) == 1
    assert await store.answered([("default", "k", "f")]) == [None]


async def test_specs_go_when_no_run_refers_to_them(store: Store, past: Micros) -> None:
    sent = recurring(store.now(), name="old")
    await store.submit([sent])
    (amended,) = await store.amend(
        [Amendment(job=sent.job, spec=recurring(0, name="new").job.spec, state=JobState.ACTIVE, keep_schedule=True)]
    )
    assert isinstance(amended, Amended)
    newest = Amendment(
        job=amended.job, spec=recurring(0, name="newest").job.spec, state=JobState.ACTIVE, keep_schedule=True
    )
    assert isinstance((await store.amend([newest]))[0], Amended)
    old = finished(sent.job, past, 1)
    await remember(store, [old])
    lead, later = await leading(store), store.now() + DAY
    assert await store.forget_versions(lead, store.now() - DAY, 10) == 0, "runs of yesterday may refer to it"
    assert await store.forget_versions(lead, later, 10) == 0, "one does"
    assert (await store.specs([old.id]))[old.id].spec.name == "old"
    await prune(store)
    assert await store.forget_versions(lead, later, 10) == 1
    assert await store.forget_versions(lead, later, 10) == 0, "the newest one says when the job got its current spec"
    assert [each.version for each in (await store.versions(sent.job.id, None, 10)).items] == [3, 2]
