"""The archive, on every store: a day is written completely or not at all, and its runs are found again."""

import asyncio
import gzip
import json
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conformance.test_planning import claim
from tests.support.builders import job, one_shot, settlement
from tests.support.history import add, finished
from tests.support.thorough import THOROUGH
from timeball.domain import instant
from timeball.domain.errors import Invalid, Unavailable
from timeball.domain.instant import DAY, HOUR, MINUTE, SECOND, Micros
from timeball.domain.job.job import Job
from timeball.domain.run import archive_record
from timeball.domain.run.ledger import Origin
from timeball.domain.run.lifecycle import Failed, Failure, Succeeded
from timeball.domain.run.status import Status
from timeball.domain.task.retry import Retry
from timeball.domain.tenant import Tenant
from timeball.object_stores.bucket import Bucket, open_objects
from timeball.operation.storage import archive as writing
from timeball.operation.storage import search_archive
from timeball.operation.storage.archive import Archived, archive_day
from timeball.operation.storage.search_archive import Archive
from timeball.ports.object_store import Objects
from timeball.ports.store.queries import RunFilter
from timeball.ports.store.runs import Claim
from timeball.ports.store.store import Store
from timeball.ports.worker_protocol import LogChunk
from timeball.stores.sql.schema.runs import HistoryRow

MONDAY = date(2026, 3, 2)
MONDAY_NOON: Micros = instant.parse("2026-03-02T12:00:00Z")


class Watched:
    """Objects that remember what was read, and fail when they are told to."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.read: list[str] = []
        self.puts_left = 1_000_000

    async def put(self, objects: Mapping[str, bytes]) -> None:
        for key, content in objects.items():
            if not self.puts_left:
                raise Unavailable("the test says so")
            self.puts_left -= 1
            await self._objects.put({key: content})

    async def get(self, keys: Sequence[str]) -> list[bytes | None]:
        self.read += keys
        return await self._objects.get(keys)

    async def list(self, prefix: str) -> list[str]:
        return await self._objects.list(prefix)

    async def delete(self, keys: Sequence[str]) -> None:
        await self._objects.delete(keys)


@pytest.fixture
def objects(tmp_path: Path) -> Bucket:
    return open_objects(str(tmp_path / "archive"))


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "RUNS_AT_ONCE", 50)
    monkeypatch.setattr(writing, "MAX_RECORDS", 100)


async def archived(store: Store, objects: Objects, day: date = MONDAY) -> Archived:
    return await archive_day(store, objects, day)


async def listed(archive: Archive, limit: int = 1_000, **fields: Any) -> list[str]:
    """All pages of a list, put together."""
    found: list[str] = []
    cursor = None
    while True:
        page = await archive.list_runs(RunFilter(**{"tenant": "default", **fields}), cursor, limit)
        assert len(page.items) <= limit
        found += [run.id for run in page.items]
        if (cursor := page.next_cursor) is None:
            return found


def chunk(of: Claim, seq: int, stream: str, text: str) -> LogChunk:
    return LogChunk(run_id=of.run_id, attempt=of.attempt, token=of.token, seq=seq, stream=stream, text=text)


def mixed(jobs: Sequence[Job], count: int, every: Micros = SECOND, **fields: Any) -> list[HistoryRow]:
    """Runs from noon on, of these jobs in turn; every tenth is dead."""
    rows = [finished(jobs[at % len(jobs)], MONDAY_NOON + at * every, at + 1, **fields) for at in range(count)]
    return [msgspec.structs.replace(row, status="dead") if at % 10 == 3 else row for at, row in enumerate(rows)]


async def test_a_run_comes_back_as_it_was_with_attempts_result_and_output(store: Store, objects: Bucket) -> None:
    now = store.now()
    made = one_shot(
        now, name="etl", user_id="ann", tags=["nightly", "b"], retry=Retry(max_retries=1, backoff="fixed", base="1s")
    )
    await store.submit([made])
    failure = Failure(kind="exit", message='it said "no"\n', exit_code=3, exceptions=("a.B",))
    (first,) = await claim(store)
    await store.append_logs("w_1", [chunk(first, 0, "stdout", "eins\n")], now)
    await store.settle([settlement(first, Failed(failure))])
    await store.retry_now([first.run_id])
    (second,) = await claim(store)
    chunks = [chunk(second, seq, "stderr", f"zwei {seq} ☃\n") for seq in range(3)]
    await store.append_logs("w_1", chunks, now)
    await store.settle([settlement(second, Succeeded(msgspec.Raw(b'{"status":"dead","rows":[1,2]}')))])
    day = archive_record.day_of(first.run_id)

    assert await archived(store, objects, day) == Archived(runs=1, logs=4)

    archive = Archive(objects)
    found = await archive.run("default", first.run_id)
    assert found is not None
    assert found.run == (await store.runs([first.run_id]))[first.run_id]
    assert found.attempts == await store.attempts(first.run_id)
    assert (found.user_id, found.tags, found.run.job_name) == ("ann", ["b", "nightly"], "etl")
    assert await archive.logs("default", first.run_id, None, 0, 100) == await store.logs(first.run_id, None, 0, 100)
    assert await archive.logs("default", first.run_id, 2, 2_000_000, 1) == await store.logs(
        first.run_id, 2, 2_000_000, 1
    )
    assert await listed(archive, tag="nightly", user_id="ann") == [first.run_id]
    assert await listed(archive, tag="daily") == []
    assert await listed(archive, status=frozenset({Status.DEAD})) == []  # though its result says so
    assert await archive.run("other", first.run_id) is None
    assert await archive.run("default", f"{first.run_id[:-4]}0000") is None


@pytest.mark.usefixtures("small_parts")
async def test_every_filter_finds_what_it_means_on_pages_of_any_size(store: Store, objects: Bucket) -> None:
    jobs = [job(MONDAY_NOON - HOUR) for _ in range(7)]
    await store.create_tenant(Tenant(id="other", created_at=1, updated_at=1))
    rows = [*mixed(jobs, 3_000), finished(job(MONDAY_NOON, tenant="other"), MONDAY_NOON, 9_000)]
    rows += [finished(jobs[0], MONDAY_NOON + DAY + at, 5_000 + at, origin="manual") for at in range(20)]
    rows += [finished(jobs[1], MONDAY_NOON, 8_000, fires=60, fire_until=MONDAY_NOON + 2 * HOUR, status="skipped")]
    await add(store, rows)
    counts = [(await archived(store, objects, day)).runs for day in (MONDAY, date(2026, 3, 3), date(2026, 3, 4))]
    assert counts == [3_002, 20, 0]

    archive = Archive(objects)
    mine = sorted((row for row in rows if row.tenant == "default"), key=lambda row: row.id, reverse=True)
    at, until = MONDAY_NOON + 1_000 * SECOND, MONDAY_NOON + 1_500 * SECOND + 1
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({}, [row.id for row in mine]),
        ({"job_id": jobs[2].id}, [row.id for row in mine if row.job_id == jobs[2].id]),
        ({"status": frozenset({Status.DEAD})}, [row.id for row in mine if row.status == "dead"]),
        (
            {"status": frozenset({Status.DEAD, Status.SKIPPED}), "job_id": jobs[1].id},
            [row.id for row in mine if row.status in ("dead", "skipped") and row.job_id == jobs[1].id],
        ),
        (
            {"fire_from": at, "fire_until": until},
            [row.id for row in mine if row.fire_until >= at and row.fire_time < until],
        ),
        ({"origin": frozenset({Origin.MANUAL})}, [row.id for row in mine if row.origin == "manual"]),
        ({"job_id": "j_nonsense"}, []),
        ({"fire_from": MONDAY_NOON + 2 * DAY}, []),
    ]
    for fields, expected in cases:
        for limit in (7 if len(expected) < 500 else 333, 1_000):
            assert await listed(archive, limit, **fields) == expected, (fields, limit)
    with pytest.raises(Invalid):
        await archive.list_runs(RunFilter(tenant="default"), "12:r_1", 10)


@pytest.mark.usefixtures("small_parts")
async def test_a_crash_at_any_moment_leaves_nothing_or_everything(store: Store, objects: Bucket) -> None:
    rows = mixed([job(MONDAY_NOON)], 520)
    await add(store, rows)
    expected = sorted((row.id for row in rows), reverse=True)
    for puts in range(7):  # six parts and the manifest
        watched = Watched(objects)
        watched.puts_left = puts
        with pytest.raises(Unavailable):
            await archived(store, watched)
        assert await listed(Archive(objects)) == []

    assert (await archived(store, objects)).runs == 520
    assert await listed(Archive(objects)) == expected
    assert len(await objects.list("executions/")) == 6, "a second try writes the same objects again"


@pytest.mark.usefixtures("small_parts")
async def test_what_ended_since_is_added(store: Store, objects: Bucket) -> None:
    made = job(MONDAY_NOON)
    rows = mixed([made], 250)
    await add(store, rows)
    await archived(store, objects)
    late = finished(made, MONDAY_NOON + 100 * SECOND + 1, 777, finished_at=store.now())
    await add(store, [late])
    assert (await archive_day(store, objects, MONDAY, since=MONDAY_NOON + DAY)).runs == 1
    expected = sorted((row.id for row in [*rows, late]), reverse=True)
    for limit in (3, 100, 1_000):
        assert await listed(Archive(objects), limit) == expected


@pytest.mark.usefixtures("small_parts")
async def test_two_who_archive_the_same_day_at_once_do_no_harm(store: Store, objects: Bucket) -> None:
    rows = mixed([job(MONDAY_NOON)], 350)
    await add(store, rows[:300])
    await asyncio.gather(archived(store, objects), archived(store, objects))
    await add(store, rows[300:])
    assert (await archived(store, objects)).runs == 350, "all of them once more"
    assert len(await objects.list("manifests/")) == 2
    for limit in (7, 1_000):
        assert await listed(Archive(objects), limit) == sorted((row.id for row in rows), reverse=True)


@pytest.mark.usefixtures("small_parts")
async def test_only_parts_that_may_hold_what_is_meant_are_read(store: Store, objects: Bucket) -> None:
    jobs = [job(MONDAY_NOON - HOUR)]
    rows = mixed(jobs, 2_000)
    rows[1_234] = msgspec.structs.replace(rows[1_234], status="cancelled")
    await add(store, rows)
    await archived(store, objects)

    async def parts_read(**fields: Any) -> int:
        watched = Watched(objects)
        await Archive(watched).list_runs(RunFilter(tenant="default", **fields), None, 10)
        return sum(key.startswith("executions/") for key in watched.read)

    assert await parts_read() == 1
    assert await parts_read(status=frozenset({Status.CANCELLED})) == 1
    assert await parts_read(fire_until=MONDAY_NOON) == 0
    assert await parts_read(fire_from=MONDAY_NOON + 250 * SECOND, fire_until=MONDAY_NOON + 350 * SECOND) <= 2
    assert await parts_read(job_id=job(MONDAY_NOON + DAY).id) == 0
    watched = Watched(objects)
    assert await Archive(watched).run("default", rows[777].id) is not None
    assert sum(key.startswith("executions/") for key in watched.read) == 1


@pytest.mark.usefixtures("small_parts")
async def test_a_request_reads_only_so_much_and_the_next_goes_on(
    store: Store, objects: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_archive, "MAX_PARTS", 3)
    rare = job(MONDAY_NOON - HOUR)
    rows = [*mixed([job(MONDAY_NOON - HOUR)], 2_000), finished(rare, MONDAY_NOON + MINUTE + 1, 9_999)]
    await add(store, rows)
    await archived(store, objects)
    watched = Watched(objects)
    page = await Archive(watched).list_runs(RunFilter(tenant="default", job_id=rare.id), None, 10)
    assert (page.items, sum(key.startswith("executions/") for key in watched.read) <= 8) == ([], True)
    assert page.next_cursor is not None
    assert await listed(Archive(objects), job_id=rare.id) == [rows[-1].id]


async def test_a_search_leaves_the_event_loop_and_the_others_alone(
    store: Store, objects: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts are looked at in threads, for a few who ask at a time."""
    await add(store, mixed([job(MONDAY_NOON - HOUR)], 200))
    await archived(store, objects)
    at_once: list[int] = []
    busy = 0
    look = search_archive._look_at_each

    def watched(*arguments: Any) -> Any:
        nonlocal busy
        busy += 1
        at_once.append(busy)
        assert threading.current_thread() is not threading.main_thread()
        time.sleep(0.01)
        busy -= 1
        return look(*arguments)

    monkeypatch.setattr(search_archive, "_look_at_each", watched)
    archive = Archive(objects)
    found = await asyncio.gather(*(listed(archive, status=frozenset({Status.DEAD})) for _ in range(10)))
    assert {len(each) for each in found} == {20}
    assert len(at_once) == 10
    assert max(at_once) <= search_archive.AT_ONCE


async def test_what_is_damaged_is_told_and_what_was_deleted_is_gone(store: Store, objects: Bucket) -> None:
    rows = mixed([job(MONDAY_NOON)], 100)
    await add(store, rows)
    await archived(store, objects)
    (key,) = await objects.list("executions/")
    (content,) = await objects.get([key])
    assert content is not None
    await objects.put({key: content[: len(content) // 2]})
    with pytest.raises(Unavailable, match="cannot be read"):
        await listed(Archive(objects))
    await objects.delete([key])
    assert await listed(Archive(objects)) == []
    assert await Archive(objects).run("default", rows[0].id) is None


async def test_everybody_can_read_it(store: Store, objects: Bucket, tmp_path: Path) -> None:
    rows = mixed([job(MONDAY_NOON, name="etl")], 10, result='{"rows": 7}')
    await add(store, rows)
    await archived(store, objects)
    (path,) = (tmp_path / "archive").glob("executions/2026/03/02/runs-*.ndjson.gz")
    with gzip.open(path, "rt") as file:
        found = [json.loads(line) for line in file]
    assert [each["runId"] for each in found] == [row.id for row in rows]
    assert found[3]["status"] == "dead"
    assert found[3]["fireTime"] == "2026-03-02T12:00:03Z"
    assert found[3]["result"] == {"rows": 7}
    assert {tuple(each) for each in found} == {tuple(found[0])}, "every record has every field, in the same order"


async def test_a_large_result_does_not_come_with_a_thousand_others(store: Store, objects: Bucket) -> None:
    large = json.dumps("x" * 1_000_000)
    rows = mixed([job(MONDAY_NOON)], 12, result=large)
    await add(store, rows)
    assert 1 <= len(await store.finished_in(*archive_record.id_range(MONDAY), 0, 1_000)) < 12
    assert (await archived(store, objects)).runs == 12
    page = await Archive(objects).list_runs(RunFilter(tenant="default"), None, 1_000)
    assert [run.result for run in page.items] == [None] * 12, "lists do without"
    one = await Archive(objects).run("default", rows[5].id)
    assert one is not None
    assert bytes(one.run.result or b"").decode() == large


@pytest.mark.timeout(600)
async def test_a_million_runs_are_archived_and_found_again(store: Store, objects: Bucket) -> None:
    """With `TIMEBALL_THOROUGH=1`; else a few thousand."""
    count = 1_000_000 if THOROUGH else 5_000
    many, rare = [job(MONDAY_NOON - HOUR) for _ in range(1_000)], job(MONDAY_NOON - HOUR)
    every = 11 * HOUR // count
    hidden = [finished(rare, MONDAY_NOON + at * count // 7 * every + 1, count + at) for at in range(7)]
    for begin in range(0, count, 5_000):
        rows = [finished(many[at % 1_000], MONDAY_NOON + at * every, at) for at in range(begin, begin + 5_000)]
        await add(store, rows)
    await add(store, hidden)

    async def timed(what: str, work: Any) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        answer = await work
        print(f"{what}: {time.perf_counter() - wall:.2f} s, {time.process_time() - cpu:.2f} s of CPU")
        return answer

    assert (await timed(f"archive {count:,} runs", archived(store, objects))).runs == count + 7
    archive = Archive(objects)
    found = await timed("all runs of a rare job", listed(archive, job_id=rare.id))
    assert found == sorted((row.id for row in hidden), reverse=True)
    assert await timed("one run by its id", archive.run("default", hidden[3].id))
    page = await timed("the newest 100", archive.list_runs(RunFilter(tenant="default"), None, 100))
    assert len(page.items) == 100
    middle = MONDAY_NOON + count // 2 * every
    hour = await timed(
        "an hour of a job", listed(archive, job_id=many[5].id, fire_from=middle, fire_until=middle + HOUR)
    )
    assert len(hour) in range(count // 11_000 - 1, count // 11_000 + 2)
    keys = await objects.list("executions/")
    size = sum(len(content or b"") for content in await objects.get(keys))
    print(f"{len(keys)} parts, {size / 1e6:.1f} MB")
