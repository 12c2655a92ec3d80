"""I9: epochs of the maintenance lease only grow, and a server that lost the lease changes nothing."""

import asyncio

import pytest

from tests.support.builders import one_shot
from timeball.domain import retention
from timeball.domain.instant import DAY, MINUTE
from timeball.ports.store.maintenance import Deposed, Lead
from timeball.ports.store.store import Store

NAME = "housekeeping"


async def test_one_of_two_leads_until_its_lease_runs_out(stores: tuple[Store, Store]) -> None:
    one, other = stores
    assert await one.lead(NAME, "s_1", MINUTE) == Lead(NAME, "s_1", 1)
    assert await other.lead(NAME, "s_2", MINUTE) is None
    assert await one.lead(NAME, "s_1", 0) == Lead(NAME, "s_1", 1), "renewed, and over at once"
    assert await other.lead(NAME, "s_2", MINUTE) == Lead(NAME, "s_2", 2)
    assert await one.lead(NAME, "s_1", MINUTE) is None


async def test_leases_have_nothing_to_do_with_each_other(store: Store) -> None:
    assert await store.lead("a", "s_1", MINUTE) == Lead("a", "s_1", 1)
    assert await store.lead("b", "s_2", MINUTE) == Lead("b", "s_2", 1)


async def test_of_many_that_want_a_free_lease_one_gets_it(stores: tuple[Store, Store]) -> None:
    last = 0
    for turn in range(5):
        leads = await asyncio.gather(*(stores[at % 2].lead(NAME, f"s_{turn}_{at}", MINUTE) for at in range(10)))
        (lead,) = [lead for lead in leads if lead is not None]
        assert lead.epoch > last
        last = lead.epoch
        await stores[0].lead(NAME, lead.holder, 0)


async def test_who_was_deposed_changes_nothing(stores: tuple[Store, Store]) -> None:
    one, other = stores
    now = one.now()
    long_ago = one_shot(now - 40 * DAY)
    await one.submit([long_ago])
    await one.request_cancel([long_ago.runs[0].id])
    deposed = await one.lead(NAME, "s_1", 0)
    assert deposed is not None
    lead = await other.lead(NAME, "s_2", MINUTE)
    assert lead is not None

    soon = now + 100 * DAY  # so that what ended just now is old
    day = (await one.days_to_prune(soon, 10))[0]
    assert day == retention.day_of(now - 40 * DAY)
    for leader in (deposed, Lead(NAME, "s_1", lead.epoch), Lead(NAME, "s_2", lead.epoch - 1), Lead("x", "s_2", 1)):
        with pytest.raises(Deposed):
            await one.prune_day(leader, day, soon, 100)
        with pytest.raises(Deposed):
            await one.forget_versions(leader, soon, 100)
    assert long_ago.runs[0].id in await one.runs([long_ago.runs[0].id])

    while await other.prune_day(lead, day, soon, 100):
        pass
    assert await one.runs([long_ago.runs[0].id]) == {}


async def test_who_holds_an_epoch_that_ran_out_keeps_it_until_another_comes(store: Store) -> None:
    lead = await store.lead(NAME, "s_1", 0)
    assert lead is not None
    await store.forget_versions(lead, store.now(), 100)
    assert await store.lead(NAME, "s_1", MINUTE) == lead
