"""An accepted job is durable and exists once: submissions and idempotency keys (I1, I14)."""

import asyncio

import msgspec
import pytest

from tests.support.builders import one_shot, recurring, settlement
from timeball.ports.store.jobs import Accepted, Idempotency, JobFilter, Mismatched, Replayed, Submission
from timeball.ports.store.queries import RunFilter
from timeball.ports.store.runs import SlotRequest
from timeball.ports.store.store import Store


def keyed(submission: Submission, key: str = "key", fingerprint: str = "same") -> Submission:
    answer = f"answer to {submission.job.id}".encode()
    return msgspec.structs.replace(submission, idempotency=Idempotency(key, fingerprint, answer))


async def count_runs(store: Store) -> int:
    return len((await store.list_runs(RunFilter(tenant="default"), None, 1_000)).items)


async def test_a_submitted_job_is_there_as_it_was_sent(store: Store) -> None:
    sent = [one_shot(store.now(), name="émile \x00", tags=["a", "b"], user_id="u"), recurring(store.now())]
    assert await store.submit(sent) == [Accepted(each.job.id) for each in sent]
    found = await store.jobs([each.job.id for each in sent] + ["j_unknown"])
    assert {key: status.job for key, status in found.items()} == {each.job.id: each.job for each in sent}


async def test_submitting_the_same_ids_again_changes_nothing(store: Store) -> None:
    sent = [one_shot(store.now()) for _ in range(3)]
    await store.submit(sent)
    assert await store.submit(sent) == [Accepted(each.job.id) for each in sent]
    assert await count_runs(store) == 3


async def test_who_sends_something_again_is_no_burden_to_others(store: Store) -> None:
    sent, others = one_shot(store.now()), [one_shot(store.now()) for _ in range(20)]
    await store.submit([sent])
    answers = await asyncio.gather(*(store.submit([other, sent]) for other in others))
    assert answers == [[Accepted(other.job.id), Accepted(sent.job.id)] for other in others]
    assert await count_runs(store) == 21


async def test_a_job_sent_again_after_its_run_finished_does_not_run_again(store: Store) -> None:
    sent = one_shot(store.now())
    await store.submit([sent])
    (claim,) = (await store.claim([SlotRequest("w_1", "", 1)], 0)).claims
    await store.settle([settlement(claim)])
    assert await store.submit([sent]) == [Accepted(sent.job.id)]
    assert (await store.claim([SlotRequest("w_1", "", 1)], 0)).claims == []


async def test_one_batch_may_name_the_same_job_twice(store: Store) -> None:
    sent = one_shot(store.now())
    assert await store.submit([sent, sent]) == [Accepted(sent.job.id)] * 2
    assert await count_runs(store) == 1


async def test_the_same_key_and_request_get_the_first_answer(store: Store) -> None:
    first, second = keyed(one_shot(store.now())), keyed(one_shot(store.now()))
    assert await store.submit([first]) == [Accepted(first.job.id)]
    assert first.idempotency is not None
    assert await store.submit([second]) == [Replayed(first.job.id, first.idempotency.answer)]
    assert await count_runs(store) == 1


async def test_the_same_key_and_another_request_are_refused(store: Store) -> None:
    first, second = keyed(one_shot(store.now())), keyed(one_shot(store.now()), fingerprint="other")
    await store.submit([first])
    assert await store.submit([second]) == [Mismatched(first.job.id)]
    assert await count_runs(store) == 1


async def test_a_repetition_inside_one_batch_is_answered_like_any_other(store: Store) -> None:
    first, again, other, free = (
        keyed(one_shot(store.now())),
        keyed(one_shot(store.now())),
        keyed(one_shot(store.now()), fingerprint="other"),
        one_shot(store.now()),
    )
    assert first.idempotency is not None
    assert await store.submit([first, again, other, free]) == [
        Accepted(first.job.id),
        Replayed(first.job.id, first.idempotency.answer),
        Mismatched(first.job.id),
        Accepted(free.job.id),
    ]


async def test_what_a_key_was_answered_can_be_asked_without_submitting(store: Store) -> None:
    first = keyed(one_shot(store.now()))
    assert first.idempotency is not None
    key, fingerprint, answer = first.idempotency.key, first.idempotency.fingerprint, first.idempotency.answer
    await store.submit([first])
    mine = first.job.tenant
    asked = [(mine, key, fingerprint), (mine, key, "other"), ("other", key, fingerprint), (mine, "new", fingerprint)]
    assert await store.answered(asked) == [Replayed(first.job.id, answer), Mismatched(first.job.id), None, None]
    assert await count_runs(store) == 1


async def test_a_request_whose_answer_was_lost_may_be_sent_again(store: Store) -> None:
    sent = keyed(one_shot(store.now()))
    assert await store.submit([sent]) == await store.submit([sent]) == [Accepted(sent.job.id)]
    assert await count_runs(store) == 1


async def test_keys_belong_to_a_tenant(store: Store) -> None:
    mine, yours = keyed(one_shot(store.now())), keyed(one_shot(store.now(), tenant="other"), fingerprint="other")
    assert await store.submit([mine, yours]) == [Accepted(mine.job.id), Accepted(yours.job.id)]


async def test_of_a_hundred_requests_with_one_key_one_wins(stores: tuple[Store, Store]) -> None:
    sent = [keyed(one_shot(stores[0].now())) for _ in range(100)]
    answers = await asyncio.gather(*(stores[at % 2].submit([each]) for at, each in enumerate(sent)))
    winners = [answer.job_id for (answer,) in answers if isinstance(answer, Accepted)]
    assert len(winners) == 1
    assert {answer.job_id for (answer,) in answers} == set(winners)
    assert all(isinstance(answer, Accepted | Replayed) for (answer,) in answers)
    assert await count_runs(stores[0]) == 1


async def test_batches_with_the_same_keys_in_opposite_order_do_not_block_each_other(
    stores: tuple[Store, Store],
) -> None:
    for turn in range(10):
        keys = [f"{turn}/{number}" for number in range(20)]
        one = [keyed(one_shot(stores[0].now()), key) for key in keys]
        two = [keyed(one_shot(stores[0].now()), key) for key in reversed(keys)]
        answers = await asyncio.gather(stores[0].submit(one), stores[1].submit(two))
        assert sum(isinstance(each, Accepted) for batch in answers for each in batch) == 20


async def test_the_same_job_sent_over_two_servers_at_once_is_one_job(stores: tuple[Store, Store]) -> None:
    for _ in range(10):
        sent = [one_shot(stores[0].now()) for _ in range(5)]
        one, two = await asyncio.gather(stores[0].submit(sent), stores[1].submit(sent))
        assert one == two == [Accepted(each.job.id) for each in sent]
    assert await count_runs(stores[0]) == 50


@pytest.mark.parametrize("text", ["nul \x00", "💥", "'; DROP TABLE jobs; --"])
async def test_no_text_is_a_poison(store: Store, text: str) -> None:
    """A name is searched for as a column; what a database refuses there must not fail the neighbours."""
    sent = [one_shot(store.now()), one_shot(store.now(), name=text, user_id=text, tags=[text])]
    assert await store.submit(sent) == [Accepted(each.job.id) for each in sent]
    for where in (JobFilter(tenant="default", name=text), JobFilter(tenant="default", tag=text)):
        assert [each.job for each in (await store.list_jobs(where, None, 10)).items] == [sent[1].job]
