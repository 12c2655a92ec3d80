"""Lists of runs: every way to find them gives the same runs in the same order, and a page reads few other rows
(I23)."""

import json
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.conformance.conftest import Connect
from tests.conformance.test_planning import claim
from tests.support.builders import one_shot, settlement
from tests.support.day_ranges import prepare_days
from timeball.domain import ids
from timeball.domain.instant import DAY, HOUR, MINUTE, SECOND, Micros
from timeball.domain.job.job import Job
from timeball.domain.retention import day_of
from timeball.domain.run.error_fingerprint import NO_FINGERPRINT
from timeball.domain.run.ledger import Origin
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status
from timeball.ports.store.jobs import JobFilter
from timeball.ports.store.queries import Match, RunFilter
from timeball.ports.store.store import Store
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Driver, Tx
from timeball.stores.sql.reading import run_search
from timeball.stores.sql.schema.runs import HISTORY, HistoryRow
from timeball.stores.sql.schema.table import as_tuple
from timeball.stores.sqlite.store import SqliteStore

EVERY = 10 * MINUTE


def driver(store: Store) -> Driver:
    return store._db  # type: ignore[attr-defined,no-any-return]


def run_id(made_at: Micros, number: int) -> str:
    return f"{ids.first_run(made_at)[:14]}{number:016x}"


def finished(job: Job, fire_time: Micros, number: int, **fields: Any) -> HistoryRow:
    """A run that succeeded, unless said otherwise."""
    row = HistoryRow(
        id=run_id(fire_time, number),
        job_id=job.id,
        tenant=job.tenant,
        version=1,
        fire_time=fire_time,
        fire_until=fire_time,
        fires=1,
        origin="schedule",
        status="succeeded",
        verdict="on_time",
        reason="",
        attempt=1,
        token=number,
        worker="w",
        eligible_at=fire_time,
        created_at=fire_time,
        claimed_at=fire_time,
        started_at=fire_time,
        attempt_started_at=fire_time,
        finished_at=fire_time,
        cancel_requested_at=None,
        progress=None,
        progress_note="",
        failure=None,
        result=None,
        retry_of=None,
        retried_as=None,
    )
    return msgspec.structs.replace(row, **fields)


class Past:
    """Jobs that ran every ten minutes until now, all at the same instants, and some live runs.

    What is rare is far back: the first job ran in the first hour only, was the only one that was triggered and that
    failed, and is the only one with its user, tag and task.
    """

    def __init__(self, store: Store, jobs: int, turns: int) -> None:
        self.store = store
        self.turns = turns
        self.now = store.now()
        self.start = self.now - turns * EVERY
        self.submissions = [
            one_shot(self.start, at=self.now, user_id="rare", tags=["rare"], task=None, task_id="rare"),
            *(one_shot(self.start, at=self.now, user_id="common", tags=["common"]) for _ in range(jobs - 1)),
        ]
        self.jobs = [each.job for each in self.submissions]
        self.middle = self.start + turns // 2 * EVERY

    async def fill(self) -> None:
        await prepare_days(self.store, [day_of(at) for at in range(self.start, self.now + DAY, DAY)])
        await self.store.submit(self.submissions)
        await claim(self.store)
        rows = [as_tuple(row) for row in self.history()]

        async def work(tx: Tx) -> None:
            for at in range(0, len(rows), 5_000):
                await tx.insert(HISTORY, rows[at : at + 5_000])

        await driver(self.store).write(work)
        if not isinstance(self.store, SqliteStore):

            async def analyze(tx: Tx) -> None:
                await tx.execute(Query("analyze", "ANALYZE"))

            await driver(self.store).write(analyze)

    def history(self) -> Iterator[HistoryRow]:
        number = 0
        for turn in range(self.turns):
            fire_time = self.start + turn * EVERY
            for place, job in enumerate(self.jobs):
                number += 1
                match place:
                    case 0:
                        if turn < 6:
                            unusual = {"origin": "manual", "status": "failed", "fingerprint": "rare"}
                            yield finished(job, fire_time, number, **(unusual if turn < 3 else {}))
                    case 1:
                        yield finished(job, fire_time, number, status="dead", fingerprint=f"f{turn % 2}")
                    case 2 if turn % 5 == 0:  # a span, every other of them longer than a day
                        last = fire_time + (4 * EVERY if turn % 2 else DAY + HOUR)
                        yield finished(job, fire_time, number, status="skipped", fire_until=last, fires=5)
                    case 2:
                        pass
                    case _:
                        yield finished(job, fire_time, number)

    def filters(self) -> dict[str, RunFilter]:
        def meaning(**fields: Any) -> RunFilter:
            return RunFilter(**{"tenant": "default", **fields})

        rare, common = self.jobs[0].id, self.jobs[-1].id
        times: dict[str, Any] = {"fire_from": self.middle + 1, "fire_until": self.middle + HOUR}
        unwell = frozenset({Status.DEAD, Status.FAILED, Status.CANCELLED})
        unusual = frozenset({Origin.MANUAL, Origin.REPLAY})
        found = {
            "all": meaning(),
            "times": meaning(**times),
            "from": meaning(fire_from=self.middle),
            "until": meaning(fire_until=self.middle),
            "long-ago": meaning(fire_until=self.start),
            "never": meaning(fire_from=self.now + DAY),
            "instant": meaning(fire_from=self.middle, fire_until=self.middle + 1),
            "unwell": meaning(status=unwell),
            "unwell-times": meaning(status=unwell, **times),
            "unattended": meaning(status=unwell, unattended=True),
            "letters": meaning(dead_letters=True),
            "letters-times": meaning(dead_letters=True, **times),
            "letters-error": meaning(dead_letters=True, fingerprint="f1"),
            "letters-job": meaning(dead_letters=True, job_id=common),
            "error": meaning(fingerprint="rare"),
            "unknown-error": meaning(fingerprint="f0"),
            "no-error": meaning(fingerprint=NO_FINGERPRINT),
            "unusual": meaning(origin=unusual),
            "unusual-times": meaning(origin=unusual, **times),
            "usual": meaning(origin=frozenset({Origin.SCHEDULE})),
            "job": meaning(job_id=common),
            "job-times": meaning(job_id=common, **times),
            "job-spans": meaning(job_id=self.jobs[2].id, **times),
            "job-unwell": meaning(job_id=common, status=unwell),
            "job-unusual": meaning(job_id=common, origin=unusual),
            "rare-job": meaning(job_id=rare),
            "tag": meaning(tag="common"),
            "tag-times": meaning(tag="common", **times),
            "rare-tag": meaning(tag="rare"),
            "rare-tag-times": meaning(tag="rare", **times),
            "rare-tag-unwell": meaning(tag="rare", status=unwell),
            "no-tag": meaning(tag="none"),
            "user": meaning(user_id="common"),
            "rare-user": meaning(user_id="rare"),
            "no-user": meaning(user_id="none"),
            "rare-task": meaning(task_id="rare"),
            "no-task": meaning(task_id="none"),
            "rare-user-and-tag": meaning(user_id="rare", tag="rare"),
            "other-tenant": meaning(tenant="other"),
        }
        return found | {status.value: meaning(status=frozenset({status})) for status in Status}

    def means(self, where: RunFilter, run: Run) -> bool:
        job = next(job for job in self.jobs if job.id == run.job_id)
        return (
            where.tenant == run.tenant
            and where.job_id in (None, run.job_id)
            and where.user_id in (None, job.spec.user_id)
            and where.task_id in (None, job.spec.task_id)
            and (where.tag is None or where.tag in job.spec.tags)
            and (not where.status or run.status in where.status)
            and (not where.dead_letters or run.status is Status.DEAD)
            and (not where.origin or run.origin in where.origin)
            and where.fingerprint in (None, run.fingerprint)
            and (where.fire_from is None or run.fire_until >= where.fire_from)
            and (where.fire_until is None or run.fire_time < where.fire_until)
        )


async def pages(store: Store, where: RunFilter, limit: int) -> list[Run]:
    found: list[Run] = []
    cursor = None
    while True:
        page = await store.list_runs(where, cursor, limit)
        assert len(page.items) <= limit
        found += page.items
        if (cursor := page.next_cursor) is None:
            return found


async def matches(store: Store, where: RunFilter, limit: int) -> list[str]:
    found: list[Match] = []
    while some := await store.match_runs(where, found[-1] if found else None, limit):
        found += some
    return [match.run_id for match in found]


WAYS = {"by job": (100, 0, 100), "nearby": (0, 10_000, 100), "nearby or by job": (0, 300, 100), "by time": (0, 0, 0)}


async def test_every_filter_means_the_same_runs_however_they_are_found(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = Past(store, jobs=8, turns=400)
    await past.fill()
    everything = sorted(await pages(store, RunFilter(tenant="default"), 1_000), key=lambda run: (run.fire_time, run.id))
    assert len(everything) == 6 + 400 + 80 + 5 * 400 + 8
    for way, (few, nearby, most) in WAYS.items():
        for constant, value in {"FEW_JOBS": few, "NEARBY": nearby, "MAX_JOBS": most}.items():
            monkeypatch.setattr(run_search, constant, value)
        for name, where in past.filters().items():
            meant = [run.id for run in everything if past.means(where, run)]
            limit = max(7, len(meant) // 4)
            assert [run.id for run in await pages(store, where, limit)] == meant[::-1], (way, name)
            assert await matches(store, where, limit) == meant, (way, name)
            assert await store.count_runs(where) == len(meant), (way, name)


async def test_a_run_keeps_its_place_when_it_ends(store: Store) -> None:
    """Also among runs of the same instant, and where live and finished runs alternate."""
    now = store.now()
    sent = [one_shot(now, at=now - (each // 3) * SECOND) for each in range(12)]
    await store.submit(sent)
    expected = sorted(((each.runs[0].fire_time, each.runs[0].id) for each in sent), reverse=True)
    seen: list[tuple[Micros, str]] = []
    cursor = None
    while True:
        page = await store.list_runs(RunFilter(tenant="default"), cursor, 2)
        seen += [(run.fire_time, run.id) for run in page.items]
        if (cursor := page.next_cursor) is None:
            break
        await store.settle([settlement(got) for got in (await claim(store))[::2]])
    assert seen == expected


# --- what it costs ------------------------------------------------------------------------------------------------

PAGE = 10
MAX_VISITED = {"sqlite": 20_000, "postgres": 1_000}
"""Steps of SQLite's machine, or rows that PostgreSQL looks at, for one page of a list: a fraction of what it takes to
look at all runs of the past below, which grows with them."""


class Visits:
    """What the statements of a store look at."""

    def __init__(self) -> None:
        self.count = 0

    async def sqlite(self, tx: Any, query: Query, **parameters: Any) -> list[Any]:
        def step() -> int:
            self.count += 10
            return 0

        connection: sqlite3.Connection = tx._connection
        connection.set_progress_handler(step, 10)
        try:
            return list(tx._run(query, parameters).fetchall())
        finally:
            connection.set_progress_handler(None, 0)

    async def postgres(self, tx: Any, query: Query, **parameters: Any) -> list[Any]:
        sql, arguments = tx._compiler.arguments(query, parameters)
        ((plan,),) = await tx._connection.fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", *arguments)
        self._add(json.loads(plan)[0]["Plan"])
        return list(await tx._connection.fetch(sql, *arguments))

    def _add(self, node: dict[str, Any]) -> None:
        for below in node.get("Plans", ()):
            self._add(below)
        if "Relation Name" in node:
            dropped = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
            self.count += int((node["Actual Rows"] + dropped) * node["Actual Loops"])


@pytest_asyncio.fixture(loop_scope="session")
async def long_past(connect: Connect) -> Past:
    store = await connect()
    past = Past(store, jobs=100, turns=200)
    await past.fill()
    return past


@pytest.fixture
def visits(long_past: Past, monkeypatch: pytest.MonkeyPatch) -> Callable[[Awaitable[Any]], Awaitable[int]]:
    found = Visits()
    is_sqlite = isinstance(long_past.store, SqliteStore)
    counted = found.sqlite if is_sqlite else found.postgres

    async def fetch(tx: Any, query: Query, **parameters: Any) -> list[Any]:
        rows: list[Any] = await counted(tx, query, **parameters)
        return rows

    monkeypatch.setattr(f"timeball.stores.{'sqlite.tx.Tx' if is_sqlite else 'postgres.tx.Tx'}.fetch", fetch)

    async def during(call: Awaitable[Any]) -> int:
        found.count = 0
        await call
        return found.count

    return during


async def test_a_page_costs_what_is_on_it(long_past: Past, visits: Callable[[Awaitable[Any]], Awaitable[int]]) -> None:
    """However many runs there are, and however rare or old those are that are asked for."""
    store, job = long_past.store, long_past.jobs[-1]
    most = MAX_VISITED["sqlite" if isinstance(store, SqliteStore) else "postgres"]
    costs = {name: await visits(store.list_runs(where, None, PAGE)) for name, where in long_past.filters().items()}
    for name in ("times", "unwell", "unusual", "letters", "job", "rare-tag", "job-unwell"):
        costs[f"match {name}"] = await visits(store.match_runs(long_past.filters()[name], None, PAGE))
    for name in ("times", "letters-times", "unusual", "error", "job-unwell"):
        costs[f"count {name}"] = await visits(store.count_runs(long_past.filters()[name]))
    since = long_past.middle
    costs["ledger"] = await visits(store.ledger(job.id, 0, long_past.now, None, PAGE))
    costs["ledger since"] = await visits(store.ledger(job.id, since, long_past.now, None, PAGE))
    costs["ledger sums"] = await visits(store.ledger_sums(job.id, 0, long_past.now))
    costs["current run"] = await visits(store.current_run(job.id))
    costs["groups"] = await visits(store.dead_letter_groups(RunFilter(tenant="default"), PAGE))
    assert {name: cost for name, cost in costs.items() if cost > most} == {}


async def test_a_page_of_jobs_costs_what_is_on_it(
    long_past: Past, visits: Callable[[Awaitable[Any]], Awaitable[int]]
) -> None:
    store = long_past.store
    await store.submit([one_shot(long_past.now, name="", tags=["common"]) for _ in range(2_000)])
    rare: dict[str, Any] = {"tag": "rare", "user_id": "rare", "task_id": "rare"}
    for field, value in rare.items():
        where = JobFilter(**{"tenant": "default", field: value})
        assert [found.job.id for found in (await store.list_jobs(where, None, PAGE)).items] == [long_past.jobs[0].id]
        assert await visits(store.list_jobs(where, None, PAGE)) < 1_000


async def test_looking_at_everything_would_be_noticed(
    long_past: Past, visits: Callable[[Awaitable[Any]], Awaitable[int]]
) -> None:
    most = MAX_VISITED["sqlite" if isinstance(long_past.store, SqliteStore) else "postgres"]
    assert await visits(long_past.store.count_runs(RunFilter(tenant="default"))) > 3 * most
