"""I12, I26: an attempt with a timeout ends although its worker, which is alive, never reports its end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.conftest import Tamper
from tests.support.builders import one_shot, settlement, worker
from timeball.domain.dispatch.limits import Concurrency
from timeball.domain.instant import SECOND
from timeball.domain.run.lifecycle import LEASE, UNREPORTED, Lost, Succeeded
from timeball.domain.run.status import Status
from timeball.domain.task.retry import Retry
from timeball.ports.store.runs import Claim, Settlement, SlotRequest, Wanted
from timeball.ports.store.store import Store
from timeball.ports.worker_protocol import LOCAL_KEY, Started

FIRST = ("", "")
LIMITED: dict[str, Any] = {"timeout": "10s", "grace": "5s"}
DUE = 15 * SECOND + LEASE
"""After the start of an attempt with these limits."""


async def held(store: Store, count: int = 1, **fields: Any) -> list[Claim]:
    await store.submit([one_shot(store.now(), **fields) for _ in range(count)])
    return (await store.claim([SlotRequest("w_1", "", count)], 0)).claims


async def started_ago(store: Store, tamper: Tamper, claim: Claim, ago: int) -> None:
    """As if it had been claimed and started so long ago."""
    at = store.now() - ago
    await tamper(f"UPDATE runs SET claimed_at = {at}, attempt_started_at = {at} WHERE id = '{claim.run_id}'")


async def unreported(store: Store, limit: int = 100) -> list[Settlement]:
    found = await store.unreported(FIRST, limit)
    runs = found.runs
    while found.after is not None:
        found = await store.unreported(found.after, limit)
        runs = [*runs, *found.runs]
    return runs


async def test_it_is_overdue_after_timeout_grace_and_lease_and_not_before(store: Store, tamper: Tamper) -> None:
    (claim,) = await held(store, **LIMITED)
    await started_ago(store, tamper, claim, DUE - 5 * SECOND)
    assert await unreported(store) == []
    await started_ago(store, tamper, claim, DUE)
    (found,) = await unreported(store)
    assert (found.run_id, found.attempt, found.token, found.session, found.outcome) == (
        claim.run_id,
        1,
        claim.token,
        "w_1",
        Lost(unreported=True),
    )


async def test_one_whose_start_is_unknown_gets_a_lease_more(store: Store, tamper: Tamper) -> None:
    (claim,) = await held(store, **LIMITED)
    for ago, count in ((DUE + 5 * SECOND, 0), (DUE + LEASE, 1)):
        await tamper(f"UPDATE runs SET claimed_at = {store.now() - ago} WHERE id = '{claim.run_id}'")
        assert len(await unreported(store)) == count


@pytest.mark.parametrize("fields", [{}, {"timeout": "2d"}, {"timeout": 86_400, "grace": "1h"}], ids=str)
async def test_one_without_a_timeout_or_within_it_is_left_alone(
    store: Store, tamper: Tamper, fields: dict[str, Any]
) -> None:
    (claim,) = await held(store, **fields)
    await started_ago(store, tamper, claim, 3_600 * SECOND)
    assert await unreported(store) == []


async def test_limits_in_whole_seconds_and_the_default_grace_count(store: Store, tamper: Tamper) -> None:
    (claim,) = await held(store, timeout=10)
    await started_ago(store, tamper, claim, 120 * SECOND)
    assert [each.run_id for each in await unreported(store)] == [claim.run_id]


async def test_the_time_for_which_it_made_room_does_not_count(store: Store, tamper: Tamper) -> None:
    (claim,) = await held(store, preemptible=True, **LIMITED)
    await started_ago(store, tamper, claim, DUE)
    now = store.now()
    await tamper(
        "INSERT INTO preemptions (run_id, number, by_run, attempt, token, asked_at, paused_at, ended_at)"
        f" VALUES ('{claim.run_id}', 1, 'r_x', 1, {claim.token}, {now - 20 * SECOND}, {now - 20 * SECOND}, NULL)"
    )
    assert await unreported(store) == []
    await started_ago(store, tamper, claim, DUE + 25 * SECOND)
    assert [each.run_id for each in await unreported(store)] == [claim.run_id]


async def test_all_of_them_are_found_a_page_at_a_time(store: Store, tamper: Tamper) -> None:
    await store.register(worker("w_2", slots=100), LEASE)
    mine = await held(store, 5, **LIMITED)
    await store.submit([one_shot(store.now(), **LIMITED) for _ in range(5)])
    others = (await store.claim([SlotRequest("w_2", "", 5)], 0)).claims
    endless = await held(store, 3)
    for claim in (*mine, *others, *endless):
        await started_ago(store, tamper, claim, DUE)
    assert sorted(each.run_id for each in await unreported(store, 2)) == sorted(c.run_id for c in (*mine, *others))


async def test_it_counts_as_an_attempt_frees_what_it_held_and_its_worker_is_told(store: Store, tamper: Tamper) -> None:
    limit = Concurrency(key="k", limit=1)
    (claim,) = await held(store, concurrency=limit, retry=Retry(max_retries=1), **LIMITED)
    await store.note("w_1", [(Started(run_id=claim.run_id, token=claim.token, age=0), store.now())], [])
    await started_ago(store, tamper, claim, DUE)
    (settled,) = await store.settle(await unreported(store))
    assert settled is not None
    assert settled.status is None
    assert await store.holding("w_1") == {}, "a beat is answered that it is not the worker's any more"
    assert await store.settle([settlement(claim, Succeeded())]) == [None], "its late end changes nothing"
    (again,) = (await store.claim([SlotRequest("w_1", "", 9)], 0)).claims
    assert (again.run_id, again.attempt) == (claim.run_id, 2)
    await started_ago(store, tamper, again, DUE)
    (settled,) = await store.settle(await unreported(store))
    assert settled is not None
    assert settled.status is Status.DEAD
    run = (await store.runs([claim.run_id]))[claim.run_id]
    assert run.failure == UNREPORTED
    assert len(await held(store, concurrency=limit)) == 1, "its permit is free"


async def test_at_most_once_it_is_not_repeated(store: Store, tamper: Tamper) -> None:
    (claim,) = await held(store, delivery="at_most_once", **LIMITED)
    await started_ago(store, tamper, claim, DUE)
    (settled,) = await store.settle(await unreported(store))
    assert settled is not None
    assert settled.status is Status.FAILED


async def test_an_end_that_comes_first_wins(store: Store, tamper: Tamper) -> None:
    (claim,) = await held(store, **LIMITED)
    await started_ago(store, tamper, claim, DUE)
    overdue = await unreported(store)
    assert (await store.settle([settlement(claim, Succeeded())]))[0] is not None
    assert await store.settle(overdue) == [None]


async def test_another_attempt_of_the_run_is_not_meant(store: Store, tamper: Tamper) -> None:
    (claim,) = await held(store, retry=Retry(max_retries=3), **LIMITED)
    await started_ago(store, tamper, claim, DUE)
    overdue = await unreported(store)
    await store.settle(overdue)
    (again,) = (await store.claim([SlotRequest("w_1", "", 9)], 0)).claims
    assert await store.settle(overdue) == [None]
    assert await store.holding("w_1") == {again.token: Wanted.GO_ON}
    assert await store.renew([("w_1", LOCAL_KEY)], LEASE) != [None]
