"""A run that did not start by its start deadline is skipped, in any state of waiting, and blocks no other run."""

import asyncio

import pytest

from tests.conformance.conftest import Tamper
from tests.conformance.test_planning import FAR, claim, fire, read, submitted, write
from tests.support.builders import LEASE, one_shot, run, settlement, worker
from timeball.domain.dispatch.limits import Concurrency
from timeball.domain.dispatch.placement import Resources
from timeball.domain.instant import HOUR, SECOND
from timeball.domain.run.ledger import Verdict
from timeball.domain.run.lifecycle import Failed, Failure, Released
from timeball.domain.run.status import Status
from timeball.domain.task.retry import Retry
from timeball.ports.store.jobs import Submission
from timeball.ports.store.runs import SlotRequest
from timeball.ports.store.store import Store
from timeball.ports.worker_protocol import Started

BOOM = Failed(Failure(kind="exit", message="boom"))
TOO_LATE = "UPDATE runs SET start_by = 1 WHERE id = '{}'"
REASON = "it did not start within its start deadline"


def late(store: Store, **fields: object) -> Submission:
    """A one-shot that should have started five seconds ago at the latest."""
    now = store.now()
    return one_shot(now, at=now - 10 * SECOND, start_deadline="5s", **fields)


async def expired(store: Store, *run_ids: str) -> bool:
    found = await store.runs(run_ids)
    return all((found[each].status, found[each].reason) == (Status.SKIPPED, REASON) for each in run_ids)


@pytest.mark.parametrize("fields", [{}, {"resources": Resources(cpu=1)}, {"concurrency": Concurrency("k", 1)}])
async def test_a_late_run_is_never_handed_out_and_ends_as_skipped(store: Store, fields: dict[str, object]) -> None:
    sent, other = late(store, **fields), one_shot(store.now(), start_deadline="1h")
    await store.submit([sent, other])
    assert [got.run_id for got in await claim(store)] == [other.runs[0].id]
    assert await store.next_expiry() == sent.runs[0].start_by
    assert await store.expire(10) == 1
    assert await expired(store, sent.runs[0].id)
    assert (await store.ledger_sums(sent.job.id, 0, FAR)).counts == {Verdict.SKIPPED: 1}
    assert (await store.jobs([sent.job.id]))[sent.job.id].status == "completed"
    assert (await store.expire(10), await store.next_expiry()) == (0, None)


async def test_one_that_is_not_late_yet_is_left_alone(store: Store) -> None:
    sent = [one_shot(store.now(), start_deadline=deadline) for deadline in ("2h", "1h")]
    await store.submit([*sent, one_shot(store.now())])
    assert await store.expire(10) == 0
    assert await store.next_expiry() == sent[1].runs[0].start_by
    assert len(await claim(store)) == 3
    assert await store.next_expiry() is None, "what has been claimed has no deadline any more"


async def test_the_longest_overdue_end_first(store: Store) -> None:
    now = store.now()
    sent = [one_shot(now, at=now - age * SECOND, start_deadline="5s") for age in (10, 30, 20)]
    await store.submit(sent)
    assert await store.expire(2) == 2
    assert await expired(store, sent[1].runs[0].id, sent[2].runs[0].id)
    assert not await expired(store, sent[0].runs[0].id)


async def test_one_that_waits_for_an_earlier_run_of_its_job(store: Store, tamper: Tamper) -> None:
    job = await submitted(store, 10 * SECOND, start_deadline="1h")
    assert job.next_fire_at is not None
    await write(store, job, *(fire(job.next_fire_at + at) for at in range(3)))
    first, second, third = await read(store, job)
    (got,) = await claim(store)
    await tamper(TOO_LATE.format(second.id))
    assert await store.expire(10) == 1
    assert await expired(store, second.id)
    assert await claim(store) == [], "the first one is still alive"
    await store.settle([settlement(got)])
    assert [each.run_id for each in await claim(store)] == [third.id]
    assert got.run_id == first.id


async def test_one_that_is_next_lets_the_next_of_its_job_go(store: Store, tamper: Tamper) -> None:
    job = await submitted(store, 10 * SECOND, start_deadline="1h")
    assert job.next_fire_at is not None
    await write(store, job, *(fire(job.next_fire_at + at) for at in range(2)))
    first, second = await read(store, job)
    await tamper(TOO_LATE.format(first.id))
    assert await claim(store) == []
    assert await store.expire(10) == 1
    assert [each.run_id for each in await claim(store)] == [second.id]


async def test_those_that_wait_for_their_turn_and_the_one_that_has_it(store: Store) -> None:
    now = store.now()
    first = late(store, ordering_key="k")
    second = late(store, ordering_key="k")
    third = one_shot(now, ordering_key="k")
    await store.submit([first, second, third])
    assert await claim(store) == []
    assert await store.expire(10) == 2
    assert await expired(store, first.runs[0].id, second.runs[0].id)
    assert [got.run_id for got in await claim(store)] == [third.runs[0].id], "a skipped run keeps nobody waiting"


async def test_one_that_waits_at_a_gate(store: Store, tamper: Tamper) -> None:
    sent = [one_shot(store.now(), concurrency=Concurrency("k", 1), start_deadline="1h") for _ in range(3)]
    await store.submit(sent)
    (got,) = (await store.claim([SlotRequest("w_1", "", 10)], 0)).claims
    parked = next(each.runs[0].id for each in sent if each.runs[0].id != got.run_id)
    assert (await store.runs([parked]))[parked].gate == "limit:k"
    await tamper(TOO_LATE.format(parked))
    assert await store.expire(10) == 1
    assert await expired(store, parked)
    await store.settle([settlement(got)])
    (last,) = await claim(store)
    assert last.run_id not in (got.run_id, parked)


async def test_a_retry_has_started_already(store: Store, tamper: Tamper) -> None:
    sent = one_shot(store.now(), start_deadline="1h", retry=Retry(backoff="fixed", base="0s"))
    await store.submit([sent])
    (got,) = await claim(store)
    await store.settle([settlement(got, BOOM)])
    await tamper(TOO_LATE.format(got.run_id))
    assert (await store.expire(10), await store.next_expiry()) == (0, None)
    (again,) = await claim(store)
    assert (again.run_id, again.attempt) == (got.run_id, 2)


async def test_one_that_is_running_is_left_alone_and_one_that_is_given_back_is_not(
    store: Store, tamper: Tamper
) -> None:
    sent = one_shot(store.now(), start_deadline="1h")
    await store.submit([sent])
    (got,) = await claim(store)
    await tamper(TOO_LATE.format(got.run_id))
    assert await store.expire(10) == 0
    await store.settle([settlement(got, Released(), started_at=None)])
    assert await claim(store) == []
    assert await store.expire(10) == 1


async def test_one_of_which_nothing_began_keeps_its_deadline_although_its_start_was_reported(
    store: Store, tamper: Tamper
) -> None:
    await store.submit([one_shot(store.now(), start_deadline="1h")])
    (got,) = await claim(store)
    await store.note(got.session, [(Started(run_id=got.run_id, token=got.token, age=0), store.now())], [])
    await store.settle([settlement(got, Released(begun=False), started_at=None)])
    await tamper(f"{TOO_LATE.format(got.run_id)} AND start_by IS NOT NULL")
    assert await store.expire(10) == 1


async def test_a_run_that_was_asked_for_has_a_deadline_too(store: Store) -> None:
    job = await submitted(store, -HOUR, start_deadline="5s")
    await store.trigger([run(job, store.now() - 10 * SECOND)])
    assert await store.expire(10) == 1
    assert (await store.ledger_sums(job.id, 0, FAR)).due == 0


async def test_whoever_is_first_of_those_that_claim_and_those_that_expire_wins(stores: tuple[Store, Store]) -> None:
    """Deadlines that pass while two servers claim and expire: each run starts or is skipped, never both."""
    count = 60
    for at in range(2):
        await stores[0].register(worker(f"w_{at}"), LEASE)
    now = stores[0].now()
    sent = [one_shot(now, start_deadline=f"{10 * at + 1}ms", ordering_key=f"k{at % 7}") for at in range(count)]
    await stores[0].submit(sent)
    started: list[str] = []
    skipped = 0

    async def claims(store: Store, session: str) -> None:
        while len(started) + skipped < count:
            for got in (await store.claim([SlotRequest(session, "", 2)], 0)).claims:
                started.append(got.run_id)
                await store.settle([settlement(got)])
            await asyncio.sleep(0.02)

    async def expires(store: Store) -> None:
        nonlocal skipped
        while len(started) + skipped < count:
            ended = await store.expire(5)
            skipped += ended
            await asyncio.sleep(0.001)

    async with asyncio.timeout(60):
        await asyncio.gather(
            *(claims(store, f"w_{at}") for at, store in enumerate(stores)), *(expires(store) for store in stores)
        )
    found = await stores[0].runs([each.runs[0].id for each in sent])
    assert len(started) == len(set(started))
    assert {each.id for each in found.values() if each.status is Status.SUCCEEDED} == set(started)
    assert sum(each.status is Status.SKIPPED for each in found.values()) == skipped
