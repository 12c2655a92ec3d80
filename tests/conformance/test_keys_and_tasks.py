"""API keys, registered tasks, and the clock of the store."""

import asyncio

import msgspec
import pytest

from tests.support.builders import one_shot
from timeball.domain.errors import Conflict, PreconditionFailed
from timeball.domain.identity.role import GRANTS
from timeball.domain.job.job import JobState
from timeball.ports.store.jobs import Amendment
from timeball.ports.store.registry import Key, RegisteredTask
from timeball.ports.store.store import Store
from timeball.stores.sql.registry.api_keys import stored_role


def key(name: str = "k", digest: str = "d") -> Key:
    return Key(id=f"k_{name}", tenant="default", name=name, role="admin", digest=digest, created_at=1)


def task(task_id: str, tenant: str = "default", **spec: object) -> RegisteredTask:
    return RegisteredTask(id=task_id, tenant=tenant, spec=spec, version=0, updated_at=7)


async def test_a_key_is_found_until_it_is_revoked(store: Store) -> None:
    await store.add_key(key())
    assert await store.key_by_digest("d") == key()
    assert await store.key_by_digest("other") is None
    assert await store.revoke_key("k_k")
    assert not await store.revoke_key("k_k")
    assert await store.key_by_digest("d") is None
    (revoked,) = await store.keys()
    assert revoked.revoked_at is not None


async def test_adding_the_same_key_again_changes_nothing(store: Store) -> None:
    await store.add_key(key("a"))
    await store.add_key(key("b"))
    await store.add_key(key("a"))
    assert await store.keys() == [key("a")]


async def test_a_task_that_is_put_again_after_an_ambiguous_commit_keeps_its_version(store: Store) -> None:
    """I14: the driver repeats a statement whose connection broke; the same task of the same instant is the same put."""
    assert [(await store.put_task(task("t", n=1))).version for _ in range(2)] == [1, 1]
    later = msgspec.structs.replace(task("t", n=1), updated_at=8)
    assert (await store.put_task(later)).version == 2


async def test_tasks_are_replaced_with_a_growing_version(store: Store) -> None:
    assert (await store.put_task(task("t", n=1))).version == 1
    assert (await store.put_task(task("t", n=2))).version == 2
    found = await store.task("default", "t")
    assert found is not None
    assert (found.spec, found.version, found.updated_at) == ({"n": 2}, 2, 7)
    assert await store.task("other", "t") is None


async def test_a_task_is_replaced_only_at_the_expected_version(store: Store) -> None:
    with pytest.raises(PreconditionFailed, match="there is no task 't'"):
        await store.put_task(task("t", n=1), if_match=1)
    assert (await store.put_task(task("t", n=1))).version == 1
    assert (await store.put_task(task("t", n=2), if_match=1)).version == 2
    assert (await store.put_task(task("t", n=2), if_match=1)).version == 2, "a repeated request"
    with pytest.raises(PreconditionFailed, match="at version 2, not 1"):
        await store.put_task(task("t", n=3), if_match=1)
    found = await store.task("default", "t")
    assert found is not None
    assert (found.spec, found.version) == ({"n": 2}, 2)


async def test_tasks_are_listed_by_tenant_in_pages(store: Store) -> None:
    for each in ("b", "a", "c"):
        await store.put_task(task(each))
    await store.put_task(task("d", tenant="other"))
    first = await store.list_tasks("default", None, 2)
    second = await store.list_tasks("default", first.next_cursor, 2)
    assert [each.id for each in (*first.items, *second.items)] == ["a", "b", "c"]
    assert second.next_cursor is None


async def test_a_task_in_use_is_kept(store: Store) -> None:
    await store.put_task(task("t"))
    sent = one_shot(store.now(), task=None, task_id="t")
    await store.submit([sent])
    with pytest.raises(Conflict, match=sent.job.id):
        await store.delete_task("default", "t")
    await store.amend([Amendment(job=sent.job, spec=sent.job.spec, state=JobState.CANCELLED, keep_schedule=True)])
    assert await store.delete_task("default", "t")
    assert not await store.delete_task("default", "t")


async def test_time_never_runs_backwards(stores: tuple[Store, Store]) -> None:
    last = 0
    for _ in range(50):
        now = stores[0].now()
        assert now >= last
        last = now
        await asyncio.sleep(0.001)
    assert abs(stores[0].now() - stores[1].now()) < 1_000_000


async def test_one_bad_work_does_not_fail_its_neighbours(store: Store) -> None:
    """Calls that happen to share a commit succeed and fail on their own."""
    await store.put_task(task("t"))
    await store.submit([one_shot(store.now(), task=None, task_id="t")])
    answers = await asyncio.gather(
        *(store.delete_task("default", "t") if at % 2 else store.put_task(task(f"n{at}")) for at in range(20)),
        return_exceptions=True,
    )
    assert [isinstance(answer, Conflict) for answer in answers] == [bool(at % 2) for at in range(20)]
    assert len((await store.list_tasks("default", None, 100)).items) == 11


async def test_every_role_is_stored_and_an_earlier_version_takes_none_for_more_than_it_is(store: Store) -> None:
    """Servers of earlier versions know the stored names admin, which may do everything there, and worker."""
    for role in GRANTS:
        await store.add_key(Key(id=f"k_{role}", tenant="t", name="", role=role, digest=role, created_at=1))
    assert {key.role: key.id for key in await store.keys()} == {role: f"k_{role}" for role in GRANTS}
    stored = {role: stored_role(role) for role in GRANTS}
    assert (stored.pop("system"), stored.pop("worker")) == ("admin", "worker")
    assert not {"admin", "worker"} & set(stored.values())
