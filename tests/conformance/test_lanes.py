"""Runs, jobs and counts of the timeline, and the newest runs of jobs: their content, and the rows that are read for
them."""

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tests.conformance.conftest import Connect
from tests.conformance.test_lists import MAX_VISITED, Past, driver, finished, long_past, visits
from tests.conformance.test_planning import claim
from tests.support.builders import one_shot, recurring, settlement
from timeball.domain.instant import DAY, HOUR, MINUTE, SECOND, Micros
from timeball.domain.job.job import Job
from timeball.domain.overview import lanes
from timeball.domain.overview.lanes import LaneCounts, LaneVerdict
from timeball.domain.run.status import Status
from timeball.ports.store.jobs import Submission
from timeball.ports.store.store import Store
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.overview import lanes as lanes_module
from timeball.stores.sql.schema.runs import HISTORY, HistoryRow
from timeball.stores.sql.schema.table import as_tuple
from timeball.stores.sqlite.store import SqliteStore

__all__ = ["long_past", "visits"]

Visit = Callable[[Awaitable[Any]], Awaitable[int]]


async def add(store: Store, rows: Sequence[HistoryRow]) -> None:
    async def work(tx: Tx) -> None:
        await tx.insert(HISTORY, [as_tuple(row) for row in rows])

    await driver(store).write(work)


async def jobs(store: Store, count: int, **fields: Any) -> list[Job]:
    """Jobs that fire in an hour."""
    now = store.now()
    sent = [recurring(now - 3 * DAY, next_fire_at=now + HOUR, **{"name": f"job {at}", **fields}) for at in range(count)]
    await store.submit(sent)
    return [each.job for each in sent]


# --- which jobs ---------------------------------------------------------------------------------------------------


async def test_a_frequent_job_does_not_hide_a_rare_one(store: Store) -> None:
    now = store.now()
    frequent, rare = await jobs(store, 2)
    rows = [finished(frequent, now - at * SECOND, at) for at in range(1, 600)]
    await add(store, [*rows, finished(rare, now - 541 * SECOND, 1_000)])
    sample = await store.sampled_runs("default", lanes.edges(now - 600 * SECOND, now, 20), 3)
    assert {run.job_id for run in sample.runs} == {frequent.id, rare.id}
    assert len(sample.runs) <= 20 * 3
    assert len(sample.full) == 20


async def test_a_sample_is_of_one_tenant(store: Store) -> None:
    now = store.now()
    (mine,), (theirs,) = await jobs(store, 1), await jobs(store, 1, tenant="other")
    await add(store, [finished(mine, now - SECOND, 1), finished(theirs, now - SECOND, 2)])
    sample = await store.sampled_runs("default", [now - MINUTE, now], 10)
    assert [run.job_id for run in sample.runs] == [mine.id]
    assert sample.full == frozenset()
    assert await store.lane_jobs("default", [theirs.id], now - HOUR) != []
    assert theirs.id not in {job.id for job in await store.lane_jobs("default", [theirs.id], now - HOUR)}


async def test_jobs_get_lanes_by_runs_by_live_runs_and_by_next_fires(store: Store) -> None:
    now = store.now()
    (ran, fires) = await jobs(store, 2)
    live, later = one_shot(now, name="live", tags=["x", "a"]), one_shot(now, at=now + MINUTE, name="later")
    await store.submit([live, later])
    await add(store, [finished(ran, now - 5 * MINUTE, 1)])
    done = one_shot(now - DAY, at=now - DAY).job
    await store.submit([Submission(done, ())])
    found = {job.id: job for job in await store.lane_jobs("default", [done.id], now - HOUR)}
    assert found.keys() == {ran.id, fires.id, live.job.id, later.job.id, done.id}
    assert found[ran.id].last_at == now - 5 * MINUTE
    assert found[fires.id].last_at is None
    assert found[fires.id].next_fire_at == fires.next_fire_at
    assert (found[live.job.id].last_at or 0) >= now
    assert found[live.job.id].tags == ("a", "x")
    assert found[later.job.id].next_fire_at == now + MINUTE
    assert found[later.job.id].last_at is None
    assert {job.status for job in found.values()} == {"scheduled", "completed"}
    assert found[done.id].status == "completed"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("night", {"Nightly", "NIGHT 2"}),
        ("NIGHT 2", {"NIGHT 2"}),
        ("%", {"100 %"}),
        ("_", {"a_b"}),
        ("!", {"a!"}),
        ("nothing", set()),
    ],
)
async def test_jobs_are_found_by_a_text_in_their_names(store: Store, text: str, names: set[str]) -> None:
    for name in ("Nightly", "NIGHT 2", "100 %", "a_b", "a!", "ab"):
        await jobs(store, 1, name=name)
    found = await store.lane_jobs("default", [], store.now() - HOUR, text=text)
    assert {job.name for job in found} == names


async def test_jobs_are_found_by_their_id_and_by_a_tag(store: Store) -> None:
    now = store.now()
    tagged, other = await jobs(store, 1, tags=["etl"]), await jobs(store, 1)
    await jobs(store, 1, tags=["etl"], tenant="other")
    assert [job.id for job in await store.lane_jobs("default", [], now, text=other[0].id)] == [other[0].id]
    assert [job.id for job in await store.lane_jobs("default", [other[0].id], now, tag="etl")] == [tagged[0].id]
    assert await store.lane_jobs("default", [], now, text=other[0].id, tag="etl") == []


# --- runs ---------------------------------------------------------------------------------------------------------


async def test_a_lane_has_the_newest_runs_of_the_range_and_live_ones_that_are_due(store: Store) -> None:
    now = store.now()
    (job,) = await jobs(store, 1)
    await add(store, [finished(job, now - at * MINUTE, at) for at in range(1, 10)])
    due, future = one_shot(now, at=now - 2 * HOUR).runs[0], one_shot(now, at=now + MINUTE).runs[0]
    runs = tuple(replace(run, job_id=job.id) for run in (due, future))
    sent = recurring(now, next_fire_at=now + HOUR)
    await store.submit([Submission(sent.job, tuple(replace(run, job_id=sent.job.id) for run in runs))])
    found = await store.lane_runs([job.id, sent.job.id], now - 8 * MINUTE, now + HOUR, 3)
    ended = sorted(run.fire_time for run in found if run.job_id == job.id)
    assert ended == [now - 3 * MINUTE, now - 2 * MINUTE, now - MINUTE]
    (alive,) = (run for run in found if run.job_id == sent.job.id)
    assert (alive.id, alive.status, alive.shown) == (due.id, Status.QUEUED, LaneVerdict.WAITING)
    only_live = await store.lane_runs([job.id, sent.job.id], None, now + HOUR, 3)
    assert [run.id for run in only_live] == [due.id]


async def test_a_span_that_reaches_into_the_range_is_found(store: Store, tamper: Any) -> None:
    now = store.now()
    short, long, over = await jobs(store, 3)
    skipped = {"status": "skipped", "verdict": "missed", "fires": 7}
    spans = [
        finished(short, now - 3 * HOUR, 1, fire_until=now - 10 * MINUTE, **skipped),
        finished(long, now - 3 * DAY, 2, fire_until=now - 10 * MINUTE, **skipped),
        finished(over, now - 3 * HOUR, 3, fire_until=now - 2 * HOUR, **skipped),
    ]
    await add(store, spans)
    await tamper(f"UPDATE jobs SET last_span = '{spans[1].id}' WHERE id = '{long.id}'")
    found = await store.lane_runs([short.id, long.id, over.id], now - HOUR, now, 100)
    assert {(run.job_id, run.fires, run.shown) for run in found} == {
        (short.id, 7, LaneVerdict.MISSED),
        (long.id, 7, LaneVerdict.MISSED),
    }


# --- counts -------------------------------------------------------------------------------------------------------

ENDS = (
    ("schedule", "succeeded", "on_time"),
    ("schedule", "succeeded", "late"),
    ("catch_up", "succeeded", "caught_up"),
    ("manual", "succeeded", "on_time"),
    ("schedule", "failed", "on_time"),
    ("schedule", "failed", "late"),
    ("manual", "dead", "on_time"),
    ("schedule", "dead", "on_time"),
    ("schedule", "cancelled", "cancelled"),
    ("schedule", "skipped", "skipped"),
    ("schedule", "skipped", "missed"),
)


async def history(store: Store, rng: random.Random, job: Job, since: Micros, runs: int) -> None:
    rows: list[HistoryRow] = []
    for number in range(runs):
        origin, status, verdict = rng.choice(ENDS)
        at = since + rng.randrange(HOUR)
        fires = rng.choice((1, 1, 5)) if status == "skipped" else 1
        ends = {"origin": origin, "status": status, "verdict": verdict, "fires": fires, "fire_until": at}
        rows.append(finished(job, at, 10_000 * int(job.id[-4:], 16) + number, **ends))
    await add(store, rows)


def as_numbers(counts: Sequence[LaneCounts]) -> list[dict[LaneVerdict, int]]:
    return [each.counts for each in counts]


@pytest.mark.parametrize("limit", [50_000, 400], ids=["grouped", "by-part"])
async def test_counts_are_those_of_the_runs(store: Store, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever index they are read from."""
    since = store.now() - HOUR
    rng = random.Random(7)
    two = await jobs(store, 2)
    for job in two:
        await history(store, rng, job, since, 150)
    ids = [job.id for job in two]
    edges = lanes.edges(since, since + HOUR, 2)
    found = await store.lane_counts(ids, edges, limit)
    runs = await store.lane_runs(ids, since, since + HOUR, 1_000)
    for job in two:
        own = [run for run in runs if run.job_id == job.id]
        assert as_numbers(found[job.id]) == as_numbers(lanes.counted(own, edges))
        assert not any(each.capped for each in found[job.id])


async def test_counts_of_a_busy_job_are_capped_part_by_part(store: Store) -> None:
    since = store.now() - HOUR
    busy, idle = await jobs(store, 2)
    await add(store, [finished(busy, since + at * SECOND, at) for at in range(600)])
    found = await store.lane_counts([busy.id, idle.id], lanes.edges(since, since + HOUR, 6), 120)
    assert as_numbers(found[busy.id]) == [{LaneVerdict.ON_TIME: 10}, {}, {}, {}, {}, {}]
    assert [each.capped for each in found[busy.id]] == [True, False, False, False, False, False]
    assert as_numbers(found[idle.id]) == [{}] * 6


# --- the newest runs of jobs --------------------------------------------------------------------------------------


async def test_the_newest_runs_of_each_job_are_found_live_and_finished(store: Store) -> None:
    now = store.now()
    one, two = await jobs(store, 2)
    await add(store, [finished(one, now - at * MINUTE, at) for at in range(1, 30)])
    await add(store, [finished(two, now - HOUR, 100)])
    sent = one_shot(now, at=now + HOUR)
    due = replace(one_shot(now, at=now - SECOND).runs[0], job_id=sent.job.id)
    await store.submit([Submission(sent.job, (*sent.runs, due))])
    found = await store.recent_runs([one.id, two.id, sent.job.id, "j_none"], 20)
    assert [run.fire_time for run in found[one.id]] == [now - at * MINUTE for at in range(1, 21)]
    assert [run.fire_time for run in found[two.id]] == [now - HOUR]
    assert [(run.id, run.status) for run in found[sent.job.id]] == [(due.id, Status.QUEUED)]
    assert found["j_none"] == []
    await store.settle([settlement(each) for each in await claim(store)])
    found = await store.recent_runs([sent.job.id], 20)
    assert [(run.id, run.status) for run in found[sent.job.id]] == [(due.id, Status.SUCCEEDED)]


# --- what it costs ------------------------------------------------------------------------------------------------


async def test_the_overview_costs_what_is_shown(long_past: Past, visits: Visit) -> None:
    """However many runs there are: 20,000 of 100 jobs here."""
    store, now = long_past.store, long_past.now
    await store.submit([recurring(now, next_fire_at=now + HOUR) for _ in range(50)])
    ids = [job.id for job in long_past.jobs[:10]]
    edges = lanes.edges(now - 2 * HOUR, now, 10)
    costs = {
        "present": await visits(store.present("default")),
        "upcoming": await visits(store.upcoming("default", 10)),
        "attention": await visits(store.attention_facts("default")),
        "statistics": await visits(store.statistics("default", 60 * SECOND, now - DAY, now)),
        "sample": await visits(store.sampled_runs("default", edges, 10)),
        "jobs": await visits(store.lane_jobs("default", ids, now - 2 * HOUR)),
        "runs": await visits(store.lane_runs(ids, now - 2 * HOUR, now, 10)),
        "counts": await visits(store.lane_counts(ids, edges, 1_000)),
        "recent": await visits(store.recent_runs(ids, 10)),
    }
    limit = MAX_VISITED["sqlite" if isinstance(store, SqliteStore) else "postgres"]
    assert {name: cost for name, cost in costs.items() if cost > limit} == {}


async def test_a_bounded_number_of_names_is_compared(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes_module, "MAX_LOOKED_AT", 3)
    store = await connect()
    await jobs(store, 10, name="same")
    assert len(await store.lane_jobs("default", [], store.now(), text="same")) == 3
