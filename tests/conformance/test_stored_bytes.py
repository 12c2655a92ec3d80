"""Quotas of stored bytes: enforced where specs, output and results are stored; counters equal recounts (I18)."""

import asyncio
from collections import Counter

import pytest
from msgspec import Raw, structs

from tests.conformance.test_amend import change
from tests.conformance.test_ordering_keys import claim
from tests.conformance.test_plain_jobs import ONE_SHOTS, run_all, said
from tests.conformance.test_quotas import code_of, limit, once, recurs, submit
from tests.conformance.test_settling import chunk
from tests.support.builders import one_shot, run, settlement
from tests.support.day_ranges import leading, patiently
from timeball.domain.errors import QuotaExceeded
from timeball.domain.instant import DAY
from timeball.domain.job import large_values
from timeball.domain.job.job import encode_spec, offloaded
from timeball.domain.quota import NOTE_OF_BYTES
from timeball.domain.retention import day_of
from timeball.domain.run.lifecycle import Failed, Failure, Succeeded
from timeball.ports.store.jobs import Amended, Submission
from timeball.ports.store.runs import Claim
from timeball.ports.store.store import Store

__all__ = ["said"]
NOTE = len(NOTE_OF_BYTES)
PLENTY = 10**9


async def stored(store: Store) -> int:
    return (await store.quota_use("acme")).stored_bytes


async def recounted(store: Store) -> int:
    return await store.recount_stored_bytes(await leading(store), "acme")


async def exact(store: Store) -> int:
    """Return the count of stored bytes, which a recount does not change."""
    counted = await stored(store)
    assert await recounted(store) == counted == await stored(store)
    return counted


async def attempt(store: Store, **fields: object) -> Claim:
    await store.submit([once(store, **fields)])
    (held,) = await claim(store)
    return held


async def output(store: Store, held: Claim) -> list[str]:
    return [line.text for line in await store.logs(held.run_id, None, -1, 100)]


def size(submission: Submission) -> int:
    return len(encode_spec(submission.job.spec))


# --- specs ------------------------------------------------------------------------------------------------------------


async def test_a_job_that_does_not_fit_is_refused_and_a_smaller_one_is_not(store: Store) -> None:
    small, large = recurs(store), recurs(store, parameters={"x": "y" * 5_000})
    limit(store, stored_bytes=2 * size(small) + 5_000)
    other = one_shot(store.now(), tenant="other", parameters={"x": "y" * 9_000})
    codes = await submit(store, small, large, other, recurs(store), recurs(store, parameters={"x": "y" * 4_900}))
    assert codes == ["", "quota_exceeded", "", "", "quota_exceeded"]
    assert await exact(store) == 2 * size(small)


async def test_an_update_counts_the_new_spec_and_keeps_the_old_one(store: Store) -> None:
    sent = recurs(store)
    new = structs.replace(sent.job.spec, parameters={"x": "ü" * 1_000})
    limit(store, stored_bytes=size(sent) + 1_000)
    assert await submit(store, sent) == [""]
    with pytest.raises(QuotaExceeded, match="storedBytes"):
        await store.amend([change(sent.job, spec=new)])
    assert await exact(store) == size(sent)
    limit(store, stored_bytes=PLENTY)
    (answer,) = await store.amend([change(sent.job, spec=new)])
    assert isinstance(answer, Amended)
    assert await exact(store) == size(sent) + len(encode_spec(new))
    limit(store, stored_bytes=0)
    (answer,) = await store.amend([change(answer.job)])
    assert isinstance(answer, Amended), "a change that stores nothing is never refused"


async def test_parameters_in_the_object_storage_count(store: Store) -> None:
    limit(store, stored_bytes=PLENTY)
    sent = recurs(store)
    name = large_values.parameters_name(sent.job.id, "0" * 16, 70_000)
    spec = offloaded(sent.job.spec, large_values.key("payloads", 1, store.now(), name))
    assert await submit(store, structs.replace(sent, job=sent.job.with_(spec=spec))) == [""]
    length = len(encode_spec(spec))
    assert await exact(store) == 70_000 + length
    # The same object in another version counts once, and the parameters of an edited run count.
    renamed = structs.replace(spec, name="renamed")
    (answer,) = await store.amend([change(sent.job.with_(spec=spec), spec=renamed)])
    assert isinstance(answer, Amended)
    before = await exact(store)
    assert before == 70_000 + length + len(encode_spec(renamed))
    edited = structs.replace(sent.job.spec, parameters={"x": "y" * 100})
    await store.trigger([structs.replace(run(answer.job, store.now()), spec=edited)])
    assert await exact(store) == before + len(encode_spec(edited))
    limit(store, stored_bytes=0)
    with pytest.raises(QuotaExceeded, match="storedBytes"):
        await store.trigger([structs.replace(run(answer.job, store.now()), spec=edited)])


async def test_fifty_clients_at_once_do_not_exceed_the_quota(stores: tuple[Store, Store]) -> None:
    length = size(recurs(stores[0]))
    for store in stores:
        limit(store, stored_bytes=37 * length)

    async def client(number: int) -> list[str]:
        store = stores[number % 2]
        return [code for _ in range(2) for code in await submit(store, recurs(store), recurs(store))]

    codes = Counter(code for found in await asyncio.gather(*map(client, range(50))) for code in found)
    assert codes == {"": 37, "quota_exceeded": 163}
    assert await exact(stores[1]) == 37 * length


# --- output and results -----------------------------------------------------------------------------------------------


async def test_output_beyond_the_quota_is_not_stored_and_a_note_says_so(store: Store) -> None:
    limit(store, stored_bytes=PLENTY)
    held = await attempt(store)
    limit(store, stored_bytes=await exact(store) + 100)
    chunks = [chunk(held, seq, "ü" * 20) for seq in range(4)]
    for _ in range(2):  # a report that is repeated counts once
        assert await store.append_logs(held.session, chunks, store.now()) == []
    assert await output(store, held) == ["ü" * 20, "ü" * 20, NOTE_OF_BYTES]
    assert await store.append_logs(held.session, [chunk(held, 4, "z" * 21)], store.now()) == []
    assert await output(store, held) == ["ü" * 20, "ü" * 20, NOTE_OF_BYTES], "there is one note per attempt"
    await exact(store)
    await store.settle([settlement(held)])
    await exact(store)


async def test_a_result_beyond_the_quota_is_not_stored_and_the_run_succeeds(store: Store) -> None:
    limit(store, stored_bytes=PLENTY)
    first, second, third = [await attempt(store) for _ in range(3)]
    other = one_shot(store.now(), tenant="other")
    await store.submit([other])
    (foreign,) = await claim(store)
    limit(store, stored_bytes=await exact(store) + 30)
    result = Succeeded(Raw(b'"' + b"x" * 18 + b'"'))
    sent = [settlement(each, result) for each in (first, second, third, foreign)]
    settled = await store.settle(sent)
    assert all(each is not None and each.status == "succeeded" for each in settled)
    runs = await store.runs([each.run_id for each in sent])
    assert [runs[each.run_id].result is not None for each in sent].count(True) == 2
    assert runs[foreign.run_id].result is not None
    notes = [await output(store, each) for each in (first, second, third)]
    assert sorted(notes) == [[], [NOTE_OF_BYTES], [NOTE_OF_BYTES]]
    assert await store.settle(sent) == [None] * 4
    await exact(store)


async def test_results_that_rules_decide_on_and_offloaded_ones_count(store: Store) -> None:
    limit(store, stored_bytes=PLENTY)
    held = await attempt(store, overlap="skip")
    before = await exact(store)
    reference = f"@{large_values.key('results', 1, store.now(), f'{held.run_id}-1.json')}".encode()
    (settled,) = await store.settle([structs.replace(settlement(held, Succeeded(Raw(reference))), offloaded=70_000)])
    assert settled is not None
    assert await exact(store) == before + 70_000
    held = await attempt(store)
    await store.append_logs(held.session, [chunk(held, 0, "last words")], store.now())
    await store.settle([settlement(held, Failed(Failure(kind="exit", message="1")))])
    await exact(store)


async def test_output_that_moves_to_the_object_storage_counts_as_before(store: Store) -> None:
    limit(store, stored_bytes=PLENTY)
    held = await attempt(store)
    await store.append_logs(held.session, [chunk(held, seq, "x" * 100) for seq in range(3)], store.now())
    await store.settle([settlement(held)])
    before = await exact(store)
    key = large_values.key("logs", 1, store.now(), f"{held.run_id}-1.ndjson.gz")
    assert await store.replace_output(held.run_id, held.attempt, [0, 1, 2], key)
    assert await exact(store) == before


# --- what is deleted --------------------------------------------------------------------------------------------------


async def test_what_retention_deletes_leaves_the_count_with_the_next_recount(store: Store) -> None:
    limit(store, stored_bytes=PLENTY)
    at = store.now() - 3 * DAY
    await store.submit([one_shot(at, tenant="acme")])
    (held,) = await claim(store)
    await store.append_logs(held.session, [chunk(held, 0, "x" * 1_000)], store.now())
    await store.settle([settlement(held, Succeeded(Raw(b"12")))])
    limit(store, stored_bytes=await exact(store))
    assert await submit(store, recurs(store)) == ["quota_exceeded"]
    lead = await leading(store)
    while await patiently(lambda: store.prune_day(lead, day_of(at), store.now() + DAY, 100)):
        pass
    assert await recounted(store) == 0
    assert await submit(store, recurs(store)) == [""]


async def test_a_quota_that_is_set_later_counts_what_is_there(store: Store) -> None:
    sent = [recurs(store) for _ in range(3)]
    await store.submit(sent)
    limit(store, stored_bytes=PLENTY)
    assert await stored(store) == 0
    assert await recounted(store) == sum(map(size, sent)) == await stored(store)


async def test_quotas_of_bytes_of_another_tenant_cost_no_statement_for_plain_jobs(
    store: Store, said: list[str]
) -> None:
    limit(store, stored_bytes=5)
    await store.submit([one_shot(store.now()) for _ in range(1_000)])
    assert await run_all(store) == 1_000
    assert said == ONE_SHOTS


async def test_a_repeated_refusal_and_a_refusal_of_the_day_store_nothing(store: Store) -> None:
    limit(store, stored_bytes=PLENTY, runs_per_day=1)
    answers = await store.submit([once(store), once(store)])
    assert [code_of(each) for each in answers] == ["", "daily_quota_exceeded"]
    assert await exact(store) == size(once(store))
