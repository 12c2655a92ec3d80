"""Usage and cost: every attempt counts exactly once, before, while and after it is added to the sums (I8, I23)."""

import asyncio
from decimal import Decimal
from functools import partial
from unittest import mock

import pytest
from msgspec import Raw, structs

from tests.conformance.conftest import Tamper
from tests.conformance.test_lists import driver
from tests.conformance.test_ordering_keys import BOOM, claim
from tests.conformance.test_retention import past
from tests.conformance.test_settling import chunk
from tests.conformance.test_workers import lapse
from tests.conformance.test_workflows import Crew, begin, task
from tests.support.builders import LEASE, one_shot, recurring, run, settlement, worker
from tests.support.day_ranges import leading, patiently
from tests.support.recount import Counts, counted, recounted, usage
from timeball.domain import ids
from timeball.domain.dispatch.overlap import Overlap
from timeball.domain.dispatch.placement import Resources
from timeball.domain.errors import Invalid
from timeball.domain.instant import DAY, HOUR, SECOND, Micros
from timeball.domain.job import large_values
from timeball.domain.job.job import JobState
from timeball.domain.retention import day_of
from timeball.domain.run.lifecycle import Cancelled, Outcome, Released, Succeeded
from timeball.domain.task.retry import Retry
from timeball.domain.tenant import DEFAULT_TENANT, Prices, TenantLimits
from timeball.domain.usage import Amounts
from timeball.ports.store.jobs import Amended, Amendment, Submission
from timeball.ports.store.maintenance import Deposed, Lead
from timeball.ports.store.runs import Claim
from timeball.ports.store.store import Store
from timeball.ports.store.tenants import UsageFilter
from timeball.ports.worker_protocol import Started
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.maintenance import usage as counting
from timeball.stores.sql.maintenance.usage import recount_after

__all__ = ["past"]  # a fixture

AGAIN = Retry(max_retries=3, backoff="fixed", base="0s")
PRICES = Prices(
    run=Decimal("0.0001"),
    attempt_second=Decimal("0.000000000007"),
    cpu_second=Decimal("0.00003"),
    memory_gib_second=Decimal("0.000005"),
    output_gib=Decimal("0.01"),
)


async def pay(store: Store, prices: Prices, *, now: Micros | None = None) -> None:
    tenant = await store.tenant(DEFAULT_TENANT)
    assert tenant is not None
    at = store.now() if now is None else now
    await store.update_tenant(structs.replace(tenant, limits=TenantLimits(prices=prices), updated_at=at))


async def end(store: Store, held: Claim, took: Micros, outcome: Outcome | None = None) -> None:
    """End an attempt that took this long. It ends now."""
    now = store.now()
    (settled,) = await store.settle([settlement(held, outcome, started_at=now - took, finished_at=now)])
    assert settled is not None


async def execute(store: Store, sent: Submission, took: Micros, outcome: Outcome | None = None) -> None:
    await store.submit([sent])
    (held,) = await claim(store)
    await end(store, held, took, outcome)


async def count(store: Store, *, limit: int = 1_000) -> int:
    lead, steps = await leading(store), 1
    while await store.count_usage(lead, limit):
        steps += 1
        assert steps < 1_000
    return steps


async def test_the_cost_of_known_seconds_and_prices_is_exact(store: Store) -> None:
    await pay(store, PRICES)
    due = store.now() - DAY
    asked = Resources(cpu=0.25, memory_mb=1536)
    await execute(store, one_shot(due, resources=asked), 10 * SECOND + 1, Succeeded(Raw(b'"12345678"')))
    await execute(store, one_shot(due), 7 * SECOND)
    (found,) = await usage(store, ["tenant"])
    assert (found.tenant, found.user, found.job, found.day) == (DEFAULT_TENANT, None, None, None)
    assert found.amounts == Amounts(2, 2, 17_000_001, 250 * 10_000_001, 1536 * 10_000_001, 10)
    assert found.cost == (
        2 * Decimal("0.0001")
        + Decimal("17.000001") * Decimal("0.000000000007")
        + Decimal("10.000001") * Decimal("0.25") * Decimal("0.00003")
        + Decimal("10.000001") * Decimal("1.5") * Decimal("0.000005")
        + Decimal(10) * Decimal("0.01") / 2**30
    )


async def test_a_cost_may_be_larger_than_any_number_of_the_database(store: Store, tamper: Tamper) -> None:
    """A century on 100,000 CPUs, in microseconds and thousandths."""
    await pay(store, Prices(cpu_second=Decimal(1)))
    sent = one_shot(store.now() - DAY, resources=Resources(cpu=100_000, memory_mb=10**9))
    await execute(store, sent, 0)
    took = 100 * 365 * DAY
    await tamper(f"UPDATE history SET finished_at = attempt_started_at + {took} WHERE id = '{sent.runs[0].id}'")
    for _ in range(2):
        (found,) = await usage(store, ["job"])
        assert found.cost == 100_000 * took // SECOND
        await count(store)


async def test_every_attempt_counts_once_however_it_ended(store: Store, past: Micros) -> None:
    """I23, across retries, lost leases, attempts that were given back, and cancelled runs: attempts that have started
    count, until they ended or their lease lapsed."""
    jobs = {name: one_shot(past, retry=AGAIN, name=name, priority=9 - at) for at, name in enumerate("abcdefg")}
    await store.submit([*jobs.values()])
    names = {sent.runs[0].id: name for name, sent in jobs.items()}
    held = {names[each.run_id]: each for each in await claim(store)}
    await end(store, held["a"], 3 * SECOND)
    await end(store, held["b"], 5 * SECOND, BOOM)  # it waits for another attempt
    await end(store, held["c"], 7 * SECOND, BOOM)
    await end(store, held["d"], 11 * SECOND, Released(begun=False))
    await store.request_cancel([held["e"].run_id])
    await end(store, held["e"], 13 * SECOND, Cancelled())
    await store.settle([settlement(held["f"], BOOM, started_at=None, finished_at=store.now())])
    again = {names[each.run_id]: each for each in await claim(store)}
    assert again.keys() == {"b", "c", "d", "f"}
    await store.settle([settlement(again["b"], Released(begun=False), started_at=None)])
    await store.request_cancel([again["b"].run_id])  # while it waits: it has no second attempt
    await end(store, again["c"], 17 * SECOND)
    await end(store, again["d"], 19 * SECOND)

    by_name = {jobs[name].job.id: name for name in jobs}
    expected = {"a": (1, 1, 3), "b": (1, 1, 5), "c": (1, 2, 24), "d": (1, 1, 19), "e": (1, 1, 13)}

    async def compare() -> None:
        found = await usage(store, ["job"])
        seen = {
            by_name[each.job or ""]: (each.amounts.runs, each.amounts.attempts, each.amounts.micros // SECOND)
            for each in found
            if each.amounts != Amounts()
        }
        assert seen == expected
        assert counted(await usage(store)) == await recounted(store, names)

    await compare()
    await count(store, limit=2)
    await compare()
    await end(store, again["f"], 23 * SECOND, BOOM)
    (last,) = [each for each in await claim(store) if names[each.run_id] == "f"]
    expected["f"] = (0, 1, 23)
    await compare()
    await count(store, limit=2)
    await compare()
    await end(store, last, 29 * SECOND)
    await end(store, held["g"], 31 * SECOND)
    expected |= {"f": (1, 2, 52), "g": (1, 1, 31)}
    await compare()


async def test_a_lost_attempt_counts_until_its_lease_lapsed(store: Store) -> None:
    """However much later a server notices it."""
    await store.register(worker("w_2"), LEASE)
    sent = one_shot(store.now() - SECOND)
    await store.submit([sent])
    (held,) = await claim(store, session="w_2")
    began = store.now()
    await store.note("w_2", [(Started(run_id=held.run_id, token=held.token, age=0), began)], [])
    await lapse(store, "w_2")
    lapsed_at = store.now()
    await asyncio.sleep(0.05)
    (lost,) = await store.lapsed(10)
    await store.settle([lost])
    (found,) = await usage(store, ["job"])
    assert (found.amounts.runs, found.amounts.attempts) == (0, 1)
    assert 0 < found.amounts.micros <= lapsed_at - began
    assert counted(await usage(store)) == await recounted(store, [held.run_id])


async def test_a_stale_token_adds_no_cost(store: Store) -> None:
    """I8"""
    await store.submit([one_shot(store.now() - DAY, retry=AGAIN)])
    (stale,) = await claim(store)
    await end(store, stale, SECOND, BOOM)
    (held,) = await claim(store)
    before = await usage(store)
    now = store.now()
    late = settlement(stale, started_at=now - DAY, finished_at=now, offloaded=1_000)
    assert await store.settle([late]) == [None]
    assert await store.append_logs("w_1", [chunk(stale, 0, "x" * 1_000)], 7) != []
    assert await usage(store) == before
    await end(store, held, SECOND)
    (found,) = await usage(store)
    assert found.amounts == Amounts(runs=1, attempts=2, micros=2 * SECOND)


async def test_usage_is_the_same_at_every_step_of_counting_and_pruning(store: Store, past: Micros) -> None:
    """I23: some runs end only after their turn came to be added to the sums."""
    every = recurring(past, user_id="anna", overlap=Overlap.ALLOW)
    await store.submit([every])
    runs = [run(every.job, past + at) for at in range(4)]
    await store.trigger(runs)
    shots = [one_shot(past + at, user_id="bert", retry=AGAIN) for at in range(4)]
    await store.submit(shots)
    held = await claim(store, 20)
    assert len(held) == 8
    for at, each in enumerate(held[:6]):
        await store.append_logs("w_1", [chunk(each, 0, "é" * at)], 7)
        await end(store, each, at * SECOND)
    run_ids = [each.run_id for each in held]
    expected: Counts = await recounted(store, run_ids)
    whole = (await usage(store, ["tenant"]))[0].amounts
    assert whole.bytes == 2 * sum(range(6))
    lead = await leading(store)
    while await store.count_usage(lead, 2):
        assert counted(await usage(store)) == expected
    assert counted(await usage(store)) == expected
    assert await store.usage_counted_until() > past + DAY
    for each in held[6:]:  # they are pending
        await end(store, each, 60 * SECOND)
    expected = await recounted(store, run_ids)
    whole = (await usage(store, ["tenant"]))[0].amounts
    assert whole.micros == (sum(range(6)) + 120) * SECOND
    assert counted(await usage(store)) == expected

    before, users = store.now() + DAY, await usage(store, ["user", "day"])
    for _ in range(2):
        for day in await store.days_to_prune(before, 100):
            while await patiently(partial(store.prune_day, lead, day, before, 2)):
                assert await usage(store, ["user", "day"]) == users
        assert await usage(store, ["user", "day"]) == users
        left = (await store.runs(run_ids)).keys()
        assert left <= {each.run_id for each in held[6:]}, "what is pending stays"
        lead = await count_all(store)
    assert await store.runs(run_ids) == {}
    kept = {(each.user, each.job) for each in await usage(store)}
    assert kept == {("anna", every.job.id), ("bert", "")}, "what deleted jobs used belongs to their user"
    assert await usage(store, ["user", "day"]) == users


async def count_all(store: Store) -> Lead:
    """Count everything that has ended, also a moment ago."""
    with mock.patch.object(counting, "COUNT_DELAY", -HOUR):
        await count(store)
    return await leading(store)


async def test_a_deposed_server_counts_nothing(store: Store, past: Micros) -> None:
    """I9"""
    await execute(store, one_shot(past), SECOND)
    lead = await leading(store)
    with pytest.raises(Deposed):
        await store.count_usage(structs.replace(lead, epoch=lead.epoch - 1), 10)
    assert await store.usage_counted_until() == 0


async def test_a_change_of_prices_leaves_earlier_days_as_they_were(store: Store, past: Micros) -> None:
    today = day_of(store.now())
    await execute(store, one_shot(past), SECOND)
    await execute(store, one_shot(past), SECOND)
    lists = await store.price_lists([DEFAULT_TENANT, "nobody"])
    assert lists.keys() == {DEFAULT_TENANT}
    assert lists[DEFAULT_TENANT].on(0) == lists[DEFAULT_TENANT].on(today) == Prices()
    await pay(store, Prices(run=Decimal(1)), now=today - 2 * DAY)
    await pay(store, Prices(run=Decimal(3)), now=today + 5)
    await pay(store, Prices(run=Decimal(7)), now=today + 6)
    prices = (await store.price_lists([DEFAULT_TENANT]))[DEFAULT_TENANT]
    assert [prices.on(today + at * DAY).run for at in (-3, -2, -1, 0, 1)] == [0, 1, 1, 7, 7]
    assert [each.cost for each in await usage(store, ["day"])] == [14]


async def test_usage_is_grouped_and_filtered_in_pages(store: Store) -> None:
    due = store.now() - DAY
    sent = [one_shot(due, user_id=user, name=f"{user}{at}") for user in ("anna", "bert", "") for at in range(2)]
    for at, each in enumerate(sent):
        await execute(store, each, (at + 1) * SECOND)
    for _ in range(2):
        for limit in (1, 2, 100):
            users = await usage(store, ["user"], limit=limit)
            seconds = {each.user: each.amounts.micros // SECOND for each in users}
            assert list(seconds.items()) == [("", 11), ("anna", 3), ("bert", 7)]
            jobs = await usage(store, ["user", "job", "day"], limit=limit)
            assert len(jobs) == 6
            assert jobs == sorted(jobs, key=lambda each: (each.user, each.job))
        assert [each.amounts.runs for each in await usage(store, ["tenant"], user="")] == [2]
        assert [each.amounts.runs for each in await usage(store, ["job"], job=sent[3].job.id)] == [1]
        assert [each.amounts.runs for each in await usage(store, ["job"], job=sent[3].job.id, user="anna")] == []
        assert await usage(store, ["job"], since=day_of(store.now()) + 2 * DAY) == []
        assert await usage(store, ["job"], tenants=["other"]) == []
        await count(store)
    with pytest.raises(Invalid):
        await store.usage((await filter_of(store)), "WzFd", 1)
    with pytest.raises(Invalid):
        await store.usage((await filter_of(store)), "not a cursor\ud800", 1)


async def filter_of(store: Store) -> UsageFilter:
    prices = await store.price_lists([DEFAULT_TENANT])
    return UsageFilter(tenants=prices, since=0, until=1 << 60, by=["tenant"])


async def test_a_page_ends_where_it_gets_too_long(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    due = store.now() - DAY
    for at in range(7):
        await execute(store, one_shot(due, resources=Resources(cpu=at)), SECOND)
    expected = await usage(store, ["job"], limit=100), await usage(store, ["tenant"])
    monkeypatch.setattr(counting, "MAX_ROWS", 2)
    monkeypatch.setattr(counting, "MAX_ROWS_OF_PAGE", 3)
    assert (await usage(store, ["job"], limit=100), await usage(store, ["tenant"])) == expected


async def test_an_attempt_counts_with_the_resources_that_it_had(store: Store, past: Micros) -> None:
    """Those of the version of the job that it executed, of the edited run, or of the task of a workflow."""
    sent = recurring(past, next_fire_at=store.now() + HOUR, resources=Resources(cpu=1))
    await store.submit([sent])
    first = run(sent.job, past)
    await store.trigger([first])
    (held,) = await claim(store)
    found = (await store.jobs([sent.job.id]))[sent.job.id].job
    spec = structs.replace(found.spec, resources=Resources(cpu=2, memory_mb=10))
    (amended,) = await store.amend([Amendment(job=found, spec=spec, state=JobState.ACTIVE, keep_schedule=True)])
    assert isinstance(amended, Amended)
    await end(store, held, SECOND)
    later = amended.job
    await store.trigger([run(later, past + 1)])
    (held,) = await claim(store)
    await end(store, held, 10 * SECOND)
    edited = structs.replace(run(later, past + 2), spec=structs.replace(spec, resources=Resources(cpu=4)))
    await store.trigger([edited])
    (held,) = await claim(store)
    await end(store, held, 100 * SECOND)
    for _ in range(2):
        (used,) = await usage(store, ["job"])
        assert used.amounts.cpu_micros == 1_000 * SECOND * (1 + 20 + 400)
        assert used.amounts.memory_micros == 10 * 10 * SECOND
        await count(store)


async def test_a_workflow_costs_what_its_tasks_cost(store: Store) -> None:
    await pay(store, Prices(run=Decimal(1), cpu_second=Decimal(1)))
    run_id = await begin(store, task("a", resources=Resources(cpu=3)), task("b", "a"))
    crew = Crew(store)
    done = await crew.drive(run_id)
    assert done.finished_at is not None
    found = await store.workflow_run(run_id)
    assert found is not None
    tasks = await store.runs([each.run_id for each in found.tasks if each.run_id is not None])
    a = next(each for each in tasks.values() if each.id == found.tasks[0].run_id)
    assert a.finished_at is not None
    assert a.attempt_started_at is not None
    for _ in range(2):
        (used,) = await usage(store, ["job"])
        assert (used.amounts.runs, used.amounts.attempts) == (2, 2)
        assert used.amounts.cpu_micros == 3_000 * (a.finished_at - a.attempt_started_at)
        await count_all(store)


async def test_output_and_results_count_where_they_are(store: Store) -> None:
    """In the store, or as objects beside it."""
    await store.submit([one_shot(store.now() - DAY, retry=AGAIN) for _ in range(2)])
    one, other = await claim(store)
    now = store.now()
    key = large_values.key("results", 1, now, f"{one.run_id}-{one.token}.json")
    await store.append_logs("w_1", [chunk(one, seq, "äb") for seq in range(3)], 7)
    kept = settlement(one, Succeeded(Raw(f"@{key}".encode())), started_at=now, finished_at=now, offloaded=70_000)
    await store.settle([kept, settlement(other, Succeeded(Raw(b"[1]")), started_at=now, finished_at=now)])
    for _ in range(2):
        assert [each.amounts.bytes for each in await usage(store, ["tenant"])] == [70_000 + 9 + 3]
    await store.replace_output(one.run_id, 1, [0, 1, 2], large_values.key("logs", 1, now, f"{one.run_id}-1.ndjson.gz"))
    assert [each.amounts.bytes for each in await usage(store, ["tenant"])] == [70_000 + 9 + 3]
    await count_all(store)
    assert [each.amounts.bytes for each in await usage(store, ["tenant"])] == [70_000 + 9 + 3]


async def test_the_size_of_a_result_counts_also_if_its_end_affects_other_runs(store: Store) -> None:
    sent = recurring(store.now() - HOUR)
    await store.submit([sent])
    await store.trigger([run(sent.job, store.now() - SECOND)])
    (held,) = await claim(store)
    now = store.now()
    key = large_values.key("results", 1, now, f"{held.run_id}-{held.token}.json")
    done = settlement(held, Succeeded(Raw(f"@{key}".encode())), started_at=now, finished_at=now, offloaded=80_000)
    await store.settle([structs.replace(done, serial=True)])
    assert [each.amounts.bytes for each in await usage(store, ["tenant"])] == [80_000]


async def test_runs_that_were_created_in_the_future_count_again_after_the_clock_was_set_back(store: Store) -> None:
    now = store.now()
    for at in range(6):
        await execute(store, one_shot(now - DAY + at * HOUR, user_id="u"), SECOND)
    await store.submit([one_shot(now - DAY + 4 * HOUR + 1, runs_on=["none"])])
    await count(store)
    expected = await usage(store)
    mark = ids.first_run(now - DAY + 3 * HOUR)

    async def set_back(tx: Tx) -> None:
        await recount_after(tx, mark)

    await driver(store).write(set_back)
    assert await usage(store) == expected
    assert await store.usage_counted_until() == ids.made_at(mark)
    await execute(store, one_shot(now - DAY + 4 * HOUR, user_id="u"), SECOND)
    (found,) = await usage(store, ["user"], user="u")
    assert found.amounts.attempts == 7
    await count(store)
    assert await usage(store, ["user"], user="u") == [found]
