"""Rows that refer to objects in object storage: each object in use is listed, and no row may refer to one that is about
to be deleted."""

from functools import partial

import msgspec
import pytest

from tests.conformance.test_ordering_keys import BOOM, claim
from tests.conformance.test_settling import chunk
from tests.support.builders import one_shot, recurring, run, settlement
from tests.support.day_ranges import leading, patiently, prepare_days
from timeball.domain.errors import Unavailable
from timeball.domain.instant import DAY, HOUR
from timeball.domain.job import large_values
from timeball.domain.job.job import OffloadedSpec, offloaded
from timeball.domain.retention import day_of
from timeball.domain.run.lifecycle import Succeeded
from timeball.domain.task.retry import Retry
from timeball.ports.store.jobs import Amended, Amendment, Submission
from timeball.ports.store.store import Store


def key(store: Store, kind: str, owner: str, *, days_ago: int = 0) -> str:
    return large_values.key(kind, 1, store.now() - days_ago * DAY, f"{owner}-1.json")


def with_key(submission: Submission, at: str) -> Submission:
    job = submission.job.with_(spec=offloaded(submission.job.spec, at))
    return msgspec.structs.replace(submission, job=job)


async def test_a_store_has_one_number(stores: tuple[Store, Store]) -> None:
    assert [await store.number(fresh) for store, fresh in zip(stores, (17, 18), strict=True)] == [17, 17]


async def test_parameters_are_referred_to_by_jobs_their_versions_and_edited_runs(store: Store) -> None:
    sent = recurring(store.now(), next_fire_at=store.now() + HOUR)
    first, second, edited, nobodys = (
        key(store, "payloads", owner) for owner in (sent.job.id, f"{sent.job.id}-2", run(sent.job, 1).id, "j_0")
    )
    await store.submit([with_key(sent, first)])
    assert await store.referred_to("payloads", [first, second, nobodys]) == {first}
    found = (await store.jobs([sent.job.id]))[sent.job.id].job
    assert isinstance(found.spec, OffloadedSpec)
    assert found.spec.parameters_at == first

    changed = Amendment(job=found, spec=offloaded(found.spec, second), state=found.state, keep_schedule=True)
    [amended] = await store.amend([changed])
    assert isinstance(amended, Amended)
    assert await store.referred_to("payloads", [first, second, nobodys]) == {first, second}

    own = run(sent.job, store.now())
    edited = key(store, "payloads", own.id)
    await store.trigger([msgspec.structs.replace(own, spec=offloaded(sent.job.spec, edited))])
    assert await store.referred_to("payloads", [edited, nobodys]) == {edited}
    [claimed] = await claim(store)
    assert edited.encode() in claimed.spec
    await store.settle([settlement(claimed)])
    assert await store.referred_to("payloads", [edited, nobodys]) == {edited}


async def test_nobody_begins_to_refer_to_what_may_be_swept(store: Store) -> None:
    sent = recurring(store.now(), next_fire_at=store.now() + HOUR)
    old = key(store, "payloads", sent.job.id, days_ago=3)
    with pytest.raises(Unavailable):
        await store.submit([with_key(sent, old)])
    assert await store.jobs([sent.job.id]) == {}

    await store.submit([sent])
    found = (await store.jobs([sent.job.id]))[sent.job.id].job
    late = Amendment(job=found, spec=offloaded(found.spec, old), state=found.state, keep_schedule=True)
    with pytest.raises(Unavailable):
        await store.amend([late])
    own = msgspec.structs.replace(run(found, store.now()), spec=offloaded(found.spec, old))
    with pytest.raises(Unavailable):
        await store.trigger([own])


async def test_a_result_is_referred_to_while_its_run_lives_and_by_the_run_that_has_it(store: Store) -> None:
    await store.submit([one_shot(store.now())])
    [claimed] = await claim(store)
    kept, other = key(store, "results", claimed.run_id), key(store, "results", claimed.run_id, days_ago=1)
    nobodys = key(store, "results", "r_" + "0" * 28)
    assert await store.referred_to("results", [kept, other, nobodys]) == {kept, other}
    await store.settle([settlement(claimed, Succeeded(msgspec.Raw(f"@{kept}".encode())))])
    assert await store.referred_to("results", [kept, other, nobodys]) == {kept}


async def test_a_result_on_its_way_out_may_come_back(store: Store) -> None:
    """Of a day that is taken out of the history, what ended lately is brought back."""
    past = day_of(store.now()) - 40 * DAY
    await prepare_days(store, [past])
    await store.submit([one_shot(past + HOUR)])
    [claimed] = await claim(store)
    kept = key(store, "results", claimed.run_id)
    await store.settle([settlement(claimed, Succeeded(msgspec.Raw(f"@{kept}".encode())), at=store.now())])
    lead, before = await leading(store), store.now() - 30 * DAY
    for _ in range(10):
        assert await store.referred_to("results", [kept]) == {kept}
        if not await patiently(partial(store.prune_day, lead, past, before, 1)):
            break
    [found] = (await store.runs([claimed.run_id])).values()
    assert large_values.reference(found.result) == kept


async def test_output_of_an_attempt_becomes_one_piece_once_it_has_ended(store: Store) -> None:
    await store.submit([one_shot(store.now(), retry=Retry(max_retries=1, backoff="fixed", base="0s"))])
    [first] = await claim(store)
    await store.append_logs("w_1", [chunk(first, seq, f"line {seq}") for seq in range(3)], 7)
    kept = key(store, "logs", first.run_id)
    assert not await store.replace_output(first.run_id, 1, [0, 1, 2], kept)  # it runs
    await store.settle([settlement(first, BOOM)])
    assert not await store.replace_output(first.run_id, 1, [0, 1, 2, 3], kept)  # there is no such piece
    assert not await store.replace_output(first.run_id, 1, [0, 1, 2], key(store, "logs", first.run_id, days_ago=3))
    assert [line.text for line in await store.logs(first.run_id, None, 0, 10)] == ["line 0", "line 1", "line 2"]
    assert await store.referred_to("logs", [kept]) == set()

    assert await store.replace_output(first.run_id, 1, [0, 1, 2], kept)
    [line] = await store.logs(first.run_id, None, 0, 10)
    assert (line.attempt, line.seq, line.stream, line.text) == (1, 2, large_values.REFERENCE, kept)
    assert await store.referred_to("logs", [kept]) == {kept}
    assert not await store.replace_output(first.run_id, 1, [2], kept)  # that is done
