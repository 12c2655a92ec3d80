"""The former definitions of a job: what each update stores, which key made it, and how long it is kept."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.conformance.conftest import Tamper
from tests.support.builders import recurring
from tests.support.history import add, finished
from timeball.domain.instant import SECOND
from timeball.domain.job import large_values
from timeball.domain.job.job import Job, JobState, decode_spec, is_offloaded, offloaded
from timeball.ports.store.jobs import MAX_VERSIONS, Amended, Amendment, JobVersion
from timeball.ports.store.store import Store
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Tx, scalar
from timeball.stores.sql.jobs import job_versions
from timeball.stores.sql.page_bytes import MAX_PAGE_BYTES

COUNT_ROWS = Query("count_versions", "SELECT COUNT(*) FROM job_versions WHERE job_id = :id")


async def submitted(store: Store, **fields: Any) -> Job:
    sent = recurring(store.now(), seconds=3_600, name="first", **fields)
    await store.submit([sent])
    return sent.job


async def edited(store: Store, job: Job, by: str | None = None, **fields: Any) -> Job:
    spec = msgspec.structs.replace(job.spec, **fields)
    (answer,) = await store.amend([Amendment(job=job, spec=spec, state=job.state, keep_schedule=True, by=by)])
    assert isinstance(answer, Amended)
    return answer.job


async def paused_and_resumed(store: Store, job: Job) -> Job:
    for state in (JobState.PAUSED, JobState.ACTIVE):
        (answer,) = await store.amend([Amendment(job=job, spec=job.spec, state=state, keep_schedule=True)])
        assert isinstance(answer, Amended)
        job = answer.job
    return job


async def versions(store: Store, job: Job, page: int = 100) -> list[JobVersion]:
    found: list[JobVersion] = []
    cursor: str | None = None
    while True:
        part = await store.versions(job.id, cursor, page)
        found += part.items
        cursor = part.next_cursor
        if cursor is None:
            return found


def told(found: Sequence[JobVersion]) -> list[tuple[int, str | None, str]]:
    return [(each.version, each.by, decode_spec(each.spec).name) for each in found]


async def test_a_job_that_was_never_edited_is_its_own_first_version(store: Store) -> None:
    job = await submitted(store)
    (only,) = await versions(store, job)
    assert (only.version, only.at, only.by) == (1, job.created_at, None)
    assert decode_spec(only.spec) == job.spec
    await paused_and_resumed(store, job)
    assert await versions(store, job) == [only], "a pause changes no definition"


async def test_each_update_keeps_the_definition_before_it(store: Store) -> None:
    job = await submitted(store)
    second = await edited(store, job, "deploy", name="second")
    third = await edited(store, await paused_and_resumed(store, second), None, name="third")
    fourth = await edited(store, third, "laptop", name="fourth")
    assert (second.version, third.version, fourth.version) == (2, 5, 6)
    found = await versions(store, job)
    assert told(found) == [(6, "laptop", "fourth"), (5, None, "third"), (2, "deploy", "second"), (1, None, "first")]
    assert [each.at for each in found] == [fourth.updated_at, third.updated_at, second.updated_at, job.created_at]
    for size in (1, 2, 3):
        assert await versions(store, job, size) == found


async def test_an_update_that_does_not_take_effect_keeps_nothing(store: Store) -> None:
    job = await submitted(store)
    await edited(store, job, name="second")
    late = Amendment(
        job=job, spec=msgspec.structs.replace(job.spec, name="late"), state=job.state, keep_schedule=True, by="x"
    )
    assert not isinstance((await store.amend([late]))[0], Amended)
    assert [name for _, _, name in told(await versions(store, job))] == ["second", "first"]


async def test_two_updates_of_one_batch_are_two_versions(store: Store) -> None:
    job = await submitted(store)
    spec = msgspec.structs.replace
    first = Amendment(job=job, spec=spec(job.spec, name="b"), state=job.state, keep_schedule=True, by="one")
    then = job.with_(version=2, spec=first.spec)
    second = Amendment(job=then, spec=spec(job.spec, name="c"), state=job.state, keep_schedule=True, by="two")
    answers = await store.amend([first, second])
    assert [type(each) for each in answers] == [Amended, Amended]
    assert told(await versions(store, job)) == [(3, "two", "c"), (2, "one", "b"), (1, None, "first")]


async def test_a_job_that_is_not_there_has_no_versions(store: Store) -> None:
    assert (await store.versions("j_unknown", None, 10)).items == []


async def test_at_most_50_former_definitions_are_kept(store: Store) -> None:
    job = await submitted(store)
    for number in range(2, MAX_VERSIONS + 6):
        job = await edited(store, job, f"key {number}", name=f"name {number}")
    found = await versions(store, job)
    assert len(found) == MAX_VERSIONS + 1
    assert told(found)[-1] == (5, "key 5", "name 5")
    assert await rows_of(store, job) == MAX_VERSIONS


async def test_a_definition_that_a_run_executed_stays_although_it_is_not_listed(store: Store) -> None:
    """I30: what a run executed can be read as long as the run can."""
    job = await submitted(store)
    job = await edited(store, job, name="ran")
    ran = finished(job, store.now() - SECOND, 1, version=job.version)
    await add(store, [ran])
    for number in range(3, MAX_VERSIONS + 10):
        job = await edited(store, job, name=f"name {number}")
    assert len(await versions(store, job)) == MAX_VERSIONS + 1
    assert await rows_of(store, job) == MAX_VERSIONS + 1
    assert (await store.specs([ran.id]))[ran.id].spec.name == "ran"


async def test_of_a_job_with_many_runs_every_definition_stays(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """To compare all its runs would take too long; retention removes the definitions with them."""
    monkeypatch.setattr(job_versions, "MAX_RUNS_COMPARED", 3)
    job = await submitted(store)
    await add(store, [finished(job, store.now() - SECOND, number, version=90) for number in range(3)])
    for number in range(2, MAX_VERSIONS + 6):
        job = await edited(store, job, name=f"name {number}")
    assert await rows_of(store, job) == MAX_VERSIONS + 4
    assert len(await versions(store, job)) == MAX_VERSIONS + 1


async def test_a_page_has_at_most_a_mebibyte(store: Store) -> None:
    half = {"text": "x" * (MAX_PAGE_BYTES // 2)}
    job = await submitted(store, parameters=half)
    job = await edited(store, job, name="second")
    job = await edited(store, job, name="third", parameters={})
    sizes = []
    cursor: str | None = None
    while True:
        page = await store.versions(job.id, cursor, 10)
        sizes.append(len(page.items))
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sizes == [2, 1]


async def test_a_definition_with_large_parameters_has_a_page_of_its_own(store: Store) -> None:
    job = await submitted(store)
    key = large_values.key("payloads", 1, store.now(), f"{job.id}-1.json")
    job = await edited(store, job, name="second")
    job = await edited_to(store, job, offloaded(job.spec, key))
    job = await edited(store, job, name="fourth", parameters={"now": "small"})
    large = [each for each in (await versions(store, job)) if is_offloaded(each.spec)]
    assert [each.version for each in large] == [4, 3]
    pages = []
    cursor: str | None = None
    while True:
        page = await store.versions(job.id, cursor, 10)
        pages.append([each.version for each in page.items])
        cursor = page.next_cursor
        if cursor is None:
            break
    assert pages == [[4], [3], [2, 1]]
    assert await store.referred_to("payloads", [key]) == {key}


async def edited_to(store: Store, job: Job, spec: Any) -> Job:
    (answer,) = await store.amend([Amendment(job=job, spec=spec, state=job.state, keep_schedule=True)])
    assert isinstance(answer, Amended)
    return answer.job


async def test_rows_of_earlier_versions_of_timeball_are_listed(store: Store, tamper: Tamper) -> None:
    """I27: a server that does not know the new columns writes rows without them."""
    job = await submitted(store)
    second = await edited(store, job, "deploy", name="second")
    third = await edited(store, second, "laptop", name="third")
    await tamper("UPDATE job_versions SET since_version = NULL, made_at = NULL, made_by = NULL, replaced_by = NULL")
    found = await versions(store, job)
    assert told(found) == [(3, None, "third"), (2, None, "second"), (1, None, "first")]
    assert [each.at for each in found] == [third.updated_at, second.updated_at, job.created_at]


async def rows_of(store: Any, job: Job) -> int:
    async def work(tx: Tx) -> int:
        return int(scalar(await tx.fetch(COUNT_ROWS, id=job.id)))

    return int(await store._db.read(work))
