"""Leases of sessions, and what happens to the attempts of a session that ends (I7, I22)."""

import asyncio

import pytest

from tests.support.builders import LEASE, one_shot, settlement, worker
from timeball.domain.instant import HOUR, MILLISECOND, SECOND
from timeball.domain.run.lifecycle import Lost
from timeball.domain.run.status import Status
from timeball.ports.store.registry import Key
from timeball.ports.store.runs import Claim, SlotRequest, Wanted
from timeball.ports.store.store import Store
from timeball.ports.store.workers import Lease, SessionEnd
from timeball.ports.worker_protocol import LOCAL_KEY

LOCAL = ("worker of w_1", LOCAL_KEY)


async def claimed(store: Store, session: str, count: int = 1) -> list[Claim]:
    await store.submit([one_shot(store.now()) for _ in range(count)])
    return (await store.claim([SlotRequest(session, "", count)], 0)).claims


async def lapse(store: Store, session: str) -> None:
    assert await store.renew([(session, LOCAL_KEY)], 1) != [None]
    await asyncio.sleep(0.01)


async def test_a_session_is_listed_while_it_has_a_lease(store: Store) -> None:
    await store.register(worker("w_2", name="anna", slots=3, labels=["gpu"], tasks=["f"], version="1"), LEASE)
    await claimed(store, "w_2", 2)
    newest, _ = await store.workers()
    assert (newest.session, newest.name, newest.slots, newest.labels, newest.tasks, newest.running) == (
        "w_2",
        "anna",
        3,
        ["gpu"],
        ["f"],
        2,
    )
    assert newest.lease_until > store.now() + LEASE - 10 * SECOND
    await store.end_session("w_2")
    assert [each.session for each in await store.workers()] == ["w_1"]


async def test_a_session_that_ended_is_listed_as_lost_or_left(store: Store) -> None:
    await store.register(worker("w_2", name="anna", labels=["gpu"]), LEASE)
    await store.register(worker("w_3", name="bert"), 1)
    await store.drain("w_2")
    assert await store.end_session("w_2")
    await asyncio.sleep(0.01)
    gone = {each.session: each for each in await store.gone_workers(10)}
    assert gone.keys() == {"w_2", "w_3"}
    assert (gone["w_2"].ended, gone["w_2"].labels, gone["w_2"].name) == (SessionEnd.LEFT, ["gpu"], "anna")
    assert gone["w_2"].draining_since is not None
    assert gone["w_2"].lease_until <= store.now()
    assert [each.session for each in await store.workers()] == ["w_1"]
    assert len(await store.gone_workers(1)) == 1
    await store.forget_sessions(store.now())
    assert await store.gone_workers(10) == []


async def test_a_session_is_lost_when_its_whole_lease_ran_out(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timeball.stores.sql.runs.workers.LEASE", MILLISECOND)
    await store.register(worker("w_2"), MILLISECOND)
    await asyncio.sleep(0.01)
    (unmarked,) = await store.gone_workers(10)
    await store.lapsed(10)
    (marked,) = await store.gone_workers(10)
    assert (unmarked.ended, marked.ended) == (SessionEnd.LOST, SessionEnd.LOST)


async def test_what_a_worker_offers_is_kept_to_the_thousandth_of_a_cpu(store: Store) -> None:
    await store.register(worker("w_2", cpu=1.25, memory_mb=8192, labels=["gpu"], dedicated=True), LEASE)
    offer, unlimited = await store.workers()
    assert (offer.cpu, offer.memory_mb, offer.labels, offer.dedicated) == (1.25, 8192, ["gpu"], True)
    assert (unlimited.cpu, unlimited.memory_mb, unlimited.dedicated, unlimited.reserved_for) == (
        None,
        None,
        False,
        None,
    )


async def test_a_lease_is_renewed_while_it_lasts_and_never_after(store: Store) -> None:
    await store.register(worker("w_2"), LEASE)
    await lapse(store, "w_2")
    assert await store.renew([("w_2", LOCAL_KEY)], LEASE) == [None]
    assert await store.renew([("w_unknown", LOCAL_KEY)], LEASE) == [None]
    assert await store.renew([("w_1", LOCAL_KEY)], LEASE) != [None]


async def test_what_a_lapsed_session_held_is_lost(store: Store) -> None:
    await store.register(worker("w_2"), LEASE)
    (claim,) = await claimed(store, "w_2")
    assert await store.lapsed(10) == []
    await lapse(store, "w_2")
    (lost,) = await store.lapsed(10)
    assert (lost.run_id, lost.attempt, lost.token, lost.outcome) == (claim.run_id, 1, claim.token, Lost())
    (settled,) = await store.settle([lost])
    assert settled is not None
    (again,) = (await store.claim([SlotRequest("w_1", "", 1)], 0)).claims
    assert (again.run_id, again.attempt) == (claim.run_id, 2)
    assert await store.lapsed(10) == []


async def test_what_a_forgotten_session_held_is_lost_too(store: Store) -> None:
    await store.register(worker("w_2"), LEASE)
    await lapse(store, "w_2")
    await store.lapsed(10)
    assert await store.forget_sessions(store.now() + LEASE) == 1
    assert await store.forget_sessions(store.now() + 2 * LEASE) == 0
    assert [each.session for each in await store.workers()] == ["w_1"]


async def test_a_session_that_holds_something_is_not_forgotten(store: Store) -> None:
    await store.register(worker("w_2"), LEASE)
    await claimed(store, "w_2")
    await lapse(store, "w_2")
    assert await store.forget_sessions(store.now()) == 0


async def test_once_seen_as_lapsed_a_lease_never_comes_back(stores: tuple[Store, Store]) -> None:
    """Whoever is told that the lease goes on must not be robbed of what it holds, and the other way round."""
    for _ in range(15):
        await stores[0].register(worker(session := f"w_{stores[0].now()}"), LEASE)
        (claim,) = await claimed(stores[0], session)
        assert await stores[0].renew([(session, LOCAL_KEY)], 8 * MILLISECOND) != [None]

        async def renewing(session: str) -> bool:
            await asyncio.sleep(0.006)
            return (await stores[0].renew([(session, LOCAL_KEY)], LEASE))[0] is not None

        async def rescuing(run_id: str) -> bool:
            for _ in range(8):
                if any(each.run_id == run_id for each in await stores[1].lapsed(100)):
                    return True
                await asyncio.sleep(0.002)
            return False

        renewed, lost = await asyncio.gather(renewing(session), rescuing(claim.run_id))
        assert not (renewed and lost)
        await stores[0].settle([settlement(claim)])


async def test_what_a_worker_does_not_know_of_is_given_back(store: Store) -> None:
    known, unknown, cancelled = await claimed(store, "w_1", 3)
    await store.request_cancel([cancelled.run_id])
    assert await store.give_back("w_1", [known.token], 0) == 0
    assert await store.give_back("w_1", [known.token], 1) == 2
    assert await store.holding("w_1") == {known.token: Wanted.GO_ON}
    runs = await store.runs([unknown.run_id, cancelled.run_id])
    assert runs[unknown.run_id].status is Status.QUEUED
    assert runs[cancelled.run_id].status is Status.CANCELLED
    (again,) = (await store.claim([SlotRequest("w_1", "", 9)], 0)).claims
    assert (again.run_id, again.attempt) == (unknown.run_id, 1)


async def test_goodbye_gives_everything_back(store: Store) -> None:
    await store.register(worker("w_2"), LEASE)
    claims = await claimed(store, "w_2", 3)
    await store.end_session("w_2")
    assert await store.holding("w_2") == {}
    assert await store.renew([("w_2", LOCAL_KEY)], LEASE) == [None]
    assert len((await store.claim([SlotRequest("w_1", "", 9)], 0)).claims) == len(claims)
    assert await store.settle([settlement(claim) for claim in claims]) == [None] * 3


async def test_registering_again_after_a_lost_answer_is_harmless(store: Store) -> None:
    await store.register(worker("w_1"), LEASE)
    assert len(await store.workers()) == 1


async def test_a_session_is_renewed_and_ended_for_the_key_that_opened_it(store: Store) -> None:
    """I31."""
    await store.register(worker("w_2", key="k_2"), LEASE)
    (claim,) = await claimed(store, "w_2")
    before = {each.session: each.lease_until for each in await store.workers()}
    for key in ("k_3", LOCAL_KEY, ""):
        assert await store.renew([("w_2", key)], HOUR) == [None]
        assert not await store.end_session("w_2", key)
    assert {each.session: each.lease_until for each in await store.workers()} == before
    assert list(await store.holding("w_2")) == [claim.token]
    together = [("w_2", "k_3"), ("w_2", "k_2"), ("w_1", "k_2"), ("w_1", LOCAL_KEY)]
    assert await store.renew(together, LEASE) == [None, Lease("worker of w_2", "k_2"), None, Lease(*LOCAL)]
    assert await store.end_session("w_2", "k_2")
    assert await store.holding("w_2") == {}
    assert await store.end_session("w_2", "k_2"), "again, if the answer was lost"


async def test_a_session_of_an_older_server_is_open_to_every_key(store: Store) -> None:
    """I27: that server did not say whose it is."""
    await store.register(worker("w_2", key=None), LEASE)
    assert await store.renew([("w_2", "k_2"), ("w_2", "k_3")], LEASE) == [Lease("worker of w_2", None)] * 2
    assert await store.end_session("w_2", "k_2")


async def test_no_key_ends_what_is_nobodys_session(store: Store) -> None:
    for session in ("weaver", "", "w_unknown"):
        assert not await store.end_session(session, "k_2")


async def test_sessions_of_a_revoked_key_get_nothing_more_and_lose_what_they_hold_with_their_lease(
    store: Store,
) -> None:
    now = store.now()
    await store.add_key(Key(id="k_2", tenant="t", name="", role="worker", digest="2" * 64, created_at=now))
    await store.register(worker("w_2", key="k_2"), 3 * SECOND)
    (claim,) = await claimed(store, "w_2")
    assert await store.revoke_key("k_2")
    assert await store.renew([("w_2", "k_2")], LEASE) == [None]
    await store.submit([one_shot(store.now())])
    assert (await store.claim([SlotRequest("w_2", "", 1)], 0)).claims == []
    assert await store.lapsed(10) == [], "it may still execute what it holds"
    async with asyncio.timeout(60):
        while not (lost := await store.lapsed(10)):
            await asyncio.sleep(0.02)
    assert [(each.run_id, each.session) for each in lost] == [(claim.run_id, "w_2")]
    assert await store.settle(lost) != [None]
