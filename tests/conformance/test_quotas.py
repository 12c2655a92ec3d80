"""Quotas of tenants: jobs that may fire, and runs that begin in a day (I18)."""

import asyncio
from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from tests.conformance.test_amend import change
from tests.conformance.test_backfills import context, minutely, wanted
from tests.conformance.test_plain_jobs import ONE_SHOTS, RECURRING, run_all, said
from tests.support.builders import job, one_shot, plan_due, recurring, run
from timeball.domain.errors import DailyQuotaExceeded, QuotaExceeded
from timeball.domain.instant import DAY, HOUR, SECOND, Micros
from timeball.domain.job.job import Job, JobState
from timeball.domain.quota import QUOTA_OF_DAY
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.status import Status
from timeball.domain.schedule.schedule import Date, Follow
from timeball.domain.tenant import QuotaLimits
from timeball.operation.schedules.backfill import begin
from timeball.ports.store.jobs import Accepted, Amended, Idempotency, OverQuota, Replayed, Submission, Submitted
from timeball.ports.store.queries import RunFilter
from timeball.ports.store.store import Store

__all__ = ["said"]
JOBS = 1_000


def limit(store: Store, tenant: str = "acme", **quotas: int) -> None:
    store.enforce_quotas({tenant: QuotaLimits(**quotas)})


def recurs(store: Store, **fields: Any) -> Submission:
    return recurring(store.now(), seconds=3_600, tenant="acme", **fields)


def once(store: Store, **fields: Any) -> Submission:
    return one_shot(store.now(), tenant="acme", **fields)


def later(store: Store, at: Micros) -> Submission:
    """A job that fires once, at an instant for which it has no run yet."""
    return Submission(
        job(store.now(), tenant="acme", schedule=Date(expression="2040-01-01T00:00:00Z"), next_fire_at=at), ()
    )


async def submit(store: Store, *submissions: Submission) -> list[str]:
    """Submit jobs, and return the code of each refusal, or an empty text."""
    return [code_of(each) for each in await store.submit(submissions)]


def code_of(answer: Submitted) -> str:
    return answer.error.code if isinstance(answer, OverQuota) else ""


async def runs_of(store: Store, of: Job) -> list[Any]:
    return (await store.list_runs(RunFilter(tenant=of.tenant, job_id=of.id), None, 100)).items


# --- jobs -------------------------------------------------------------------------------------------------------------


async def test_a_job_beyond_the_quota_is_refused_and_its_neighbours_are_not(store: Store) -> None:
    limit(store, jobs=2)
    others = [recurring(store.now(), tenant="other") for _ in range(3)]
    sent = [recurs(store), once(store), recurs(store), recurs(store), *others, once(store)]
    assert await submit(store, *sent) == ["", "", "", "quota_exceeded", "", "", "", ""]
    assert (await store.quota_use("acme")).jobs == 2
    assert set(await store.jobs([each.job.id for each in sent])) == {
        each.job.id for at, each in enumerate(sent) if at != 3
    }
    store.enforce_quotas({})
    assert await submit(store, recurs(store)) == [""]


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.PAUSED])
async def test_a_cancelled_job_makes_room_and_a_paused_one_does_not(store: Store, state: JobState) -> None:
    limit(store, jobs=1)
    first = recurs(store)
    assert await submit(store, first) == [""]
    (answer,) = await store.amend([change(first.job, state=state)])
    assert isinstance(answer, Amended)
    assert await submit(store, recurs(store)) == ["" if state is JobState.CANCELLED else "quota_exceeded"]


async def test_a_job_that_follows_another_counts(store: Store) -> None:
    limit(store, jobs=2)
    first = recurs(store)
    follower = job(store.now(), tenant="acme", schedule=Follow(job=first.job.id)).with_(next_fire_at=None, plan_at=None)
    assert await submit(store, first, Submission(follower, ()), recurs(store)) == ["", "", "quota_exceeded"]


async def test_a_job_that_ended_counts_again_when_an_update_lets_it_fire(store: Store) -> None:
    limit(store, jobs=1)
    ended, other = once(store), recurs(store)
    assert await submit(store, ended, other) == ["", ""]
    woken = {"keep_schedule": False, "next_fire_at": store.now() + HOUR, "spec": other.job.spec}
    with pytest.raises(QuotaExceeded):
        await store.amend([change(ended.job, **woken)])
    assert (await store.jobs([ended.job.id]))[ended.job.id].job == ended.job
    limit(store, jobs=2)
    (answer,) = await store.amend([change(ended.job, **woken)])
    assert isinstance(answer, Amended)
    limit(store, jobs=0)
    (answer,) = await store.amend([change(answer.job, state=JobState.PAUSED)])
    assert isinstance(answer, Amended), "a job that counts already may be changed, whatever the quota is"


async def test_a_repeated_request_gets_its_answer_although_the_quota_is_used_up(store: Store) -> None:
    """I14."""
    limit(store, jobs=1)

    def keyed(key: str) -> Submission:
        return Submission(recurs(store).job, (), Idempotency(key, "f", key.encode()))

    first = keyed("a")
    assert [type(each) for each in await store.submit([first, keyed("a")])] == [Accepted, Replayed]
    assert await store.submit([keyed("a")]) == [Replayed(first.job.id, b"a")]
    refused = await store.submit([keyed("b"), keyed("b")])
    assert [code_of(each) for each in refused] == ["quota_exceeded"] * 2
    limit(store, jobs=2)
    assert [type(each) for each in await store.submit([keyed("b")])] == [Accepted], "nothing was stored under its key"


@pytest.mark.parametrize(
    ("quotas", "make"), [({"jobs": 37}, recurs), ({"runs_per_day": 37}, once)], ids=["jobs", "runs"]
)
async def test_fifty_clients_at_once_do_not_exceed_a_quota(stores: tuple[Store, Store], quotas: Any, make: Any) -> None:
    for store in stores:
        limit(store, **quotas)

    async def client(number: int) -> list[str]:
        store = stores[number % 2]
        return [code for _ in range(2) for code in await submit(store, make(store), make(store))]

    codes = Counter(code for found in await asyncio.gather(*map(client, range(50))) for code in found)
    assert codes[""] == 37
    assert codes.total() == 200
    used = await stores[0].quota_use("acme")
    assert 37 in (used.jobs, used.runs_today)


# --- runs of a day ----------------------------------------------------------------------------------------------------


async def test_a_run_beyond_the_quota_of_its_day_is_refused(store: Store) -> None:
    limit(store, runs_per_day=2)
    assert await submit(store, once(store), recurs(store), once(store), once(store)) == [
        *("", "", ""),
        "daily_quota_exceeded",
    ]
    (refused,) = await store.submit([once(store)])
    assert isinstance(refused, OverQuota)
    assert isinstance(refused.error, DailyQuotaExceeded)
    assert 0 < refused.error.retry_after <= 24 * 3_600
    assert (await store.quota_use("acme")).runs_today == 2


async def test_a_fire_of_a_recurring_job_beyond_the_quota_is_skipped_with_the_reason(store: Store) -> None:
    """I2: the ledger accounts for it."""
    limit(store, runs_per_day=1)
    now = store.now()
    sent = recurring(now - HOUR - 300 * SECOND, seconds=600, tenant="acme", next_fire_at=now - SECOND)
    other = recurring(now - HOUR - 300 * SECOND, seconds=600, tenant="other", next_fire_at=now - SECOND)
    await store.submit([once(store), sent, other])
    await plan_due(store)
    (skipped,) = await runs_of(store, sent.job)
    assert (skipped.status, skipped.verdict, skipped.reason) == (Status.SKIPPED, Verdict.SKIPPED, QUOTA_OF_DAY)
    assert [each.status for each in await runs_of(store, other.job)] == [Status.QUEUED]
    assert (await store.jobs([sent.job.id]))[sent.job.id].job.next_fire_at is not None


async def test_a_future_fire_is_skipped_only_when_it_is_due(store: Store) -> None:
    limit(store, runs_per_day=1)
    now = store.now()
    soon = recurring(now - HOUR, seconds=600, tenant="acme", next_fire_at=now + SECOND, max_runs=5)
    await store.submit([once(store), soon])
    await plan_due(store)
    assert await runs_of(store, soon.job) == []
    found = (await store.jobs([soon.job.id]))[soon.job.id].job
    assert (found.next_fire_at, found.plan_at, found.fired) == (now + SECOND, now + SECOND, 0)
    limit(store, runs_per_day=2)
    while not await plan_due(store):
        await asyncio.sleep(0.05)
    assert [each.fire_time for each in await runs_of(store, soon.job)] == [now + SECOND]


async def test_a_job_that_fires_once_waits_for_the_next_day(store: Store) -> None:
    """Accepted means that it runs."""
    limit(store, runs_per_day=2)
    now = store.now()
    waiting = [later(store, now - SECOND + n) for n in range(3)]
    assert await submit(store, once(store), once(store), *waiting) == [""] * 5
    await plan_due(store)
    midnight = now - now % DAY + DAY
    days = []
    for each in waiting:
        (found,) = await runs_of(store, each.job)
        days.append((found.eligible_at - midnight) // DAY)
        assert found.eligible_at % DAY == 0
        reasons = await why(store, found.id)
        assert reasons[0] == "daily_quota"
    assert sorted(days) == [0, 0, 1]
    limit(store, runs_per_day=3)
    assert await submit(store, once(store)) == [""], "a higher quota has room today"


async def why(store: Store, run_id: str) -> list[str]:
    from timeball.domain.diagnosis import why as rules

    facts = await store.circumstances(run_id)
    assert facts is not None
    return [each.code.value for each in rules.of_run(facts)]


async def test_a_quota_of_no_runs_skips_what_was_accepted_before(store: Store) -> None:
    waiting = later(store, store.now() - SECOND)
    await store.submit([waiting])
    limit(store, runs_per_day=0)
    await plan_due(store)
    (skipped,) = await runs_of(store, waiting.job)
    assert (skipped.status, skipped.reason) == (Status.SKIPPED, QUOTA_OF_DAY)


async def test_a_requested_run_is_refused_and_nothing_is_changed(store: Store) -> None:
    limit(store, runs_per_day=1)
    sent = recurs(store)
    await store.submit([sent])
    now = store.now()
    assert await store.trigger([run(sent.job, now)]) == [Status.QUEUED]
    for _ in range(2):
        with pytest.raises(DailyQuotaExceeded):
            await store.trigger([run(sent.job, now)])
    assert len(await runs_of(store, sent.job)) == 1
    assert (await store.quota_use("acme")).runs_today == 1


async def test_a_backfill_waits_for_a_day_with_room(store: Store) -> None:
    made = await minutely(store)
    limit(store, made.tenant, runs_per_day=3)
    asked = wanted(made, 10, parallelism=5)
    begun = await begin(context(store), asked, lambda _: b"")
    for _ in range(3):
        await store.advance_backfills([begun.backfill_id])
    found = [each for each in await runs_of(store, made) if each.origin is Origin.BACKFILL]
    assert len(found) == 3
    limit(store, made.tenant, runs_per_day=4)
    await store.advance_backfills([begun.backfill_id])
    assert len(await runs_of(store, made)) == 4


async def test_runs_that_the_overlap_policy_skips_do_not_count(store: Store) -> None:
    limit(store, runs_per_day=2)
    sent = recurs(store, overlap="skip")
    await store.submit([sent])
    now = store.now()
    assert await store.trigger([run(sent.job, now)]) == [Status.QUEUED]
    assert await store.trigger([run(sent.job, now)]) == [Status.SKIPPED]
    assert (await store.quota_use("acme")).runs_today == 1


async def test_counters_equal_recounts_after_concurrent_requests(stores: tuple[Store, Store]) -> None:
    """I18, I23: whatever creates runs at the same time, on two servers."""
    for store in stores:
        limit(store, runs_per_day=60, jobs=25)
    random = Random(24)
    now = stores[0].now()
    jobs = [recurring(now - HOUR, seconds=600, tenant="acme", next_fire_at=now - n) for n in range(20)]
    await stores[0].submit(jobs)

    async def client(number: int) -> None:
        store = stores[number % 2]
        for _ in range(6):
            match random.choice(("once", "recurs", "later", "plan", "run")):
                case "once":
                    await store.submit([once(store) for _ in range(random.randint(1, 3))])
                case "recurs":
                    await store.submit([recurs(store)])
                case "later":
                    await store.submit([later(store, store.now() - SECOND)])
                case "plan":
                    await plan_due(store, limit=random.randint(1, 10))
                case "run":
                    with suppress(DailyQuotaExceeded):
                        await store.trigger([run(random.choice(jobs).job, store.now())])

    await asyncio.gather(*map(client, range(20)))
    while await plan_due(stores[0]):
        pass
    found: list[Any] = []
    cursor: str | None = None
    while True:
        page = await stores[0].list_runs(RunFilter(tenant="acme"), cursor, 100)
        found += [each for each in page.items if each.status is not Status.SKIPPED]
        if (cursor := page.next_cursor) is None:
            break
    days = Counter(max(each.eligible_at or 0, each.created_at) // DAY for each in found)
    assert max(days.values()) == 60
    assert days[now // DAY] == (await stores[0].quota_use("acme")).runs_today
    assert (await stores[0].quota_use("acme")).jobs <= 25


# --- what quotas cost -------------------------------------------------------------------------------------------------


async def test_quotas_of_another_tenant_cost_no_statement(store: Store, said: list[str]) -> None:
    limit(store, jobs=5, runs_per_day=5)
    await store.submit([one_shot(store.now()) for _ in range(JOBS)])
    assert await run_all(store) == JOBS
    assert said == ONE_SHOTS
    due = store.now() - SECOND
    await store.submit([recurring(due - 10 * SECOND, seconds=10, next_fire_at=due) for _ in range(JOBS)])
    said.clear()
    await plan_due(store, limit=JOBS)
    assert await run_all(store) == JOBS
    assert said == RECURRING


async def test_a_batch_of_a_tenant_with_quotas_takes_four_statements_more(store: Store, said: list[str]) -> None:
    limit(store, jobs=JOBS, runs_per_day=JOBS)
    await store.submit([once(store) for _ in range(JOBS - 1)])
    assert [each for each in said if "quota" in each] == [
        "insert 3 columns of quota_use that are missing",
        "lock_quota_use",
        "write_quota_use",
    ]
    said.clear()
    await store.submit([recurs(store) for _ in range(JOBS)])
    assert said.count("count_jobs_that_may_fire") == 1
