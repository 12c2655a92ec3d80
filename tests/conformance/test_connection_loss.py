"""A connection that breaks at any statement neither loses nor repeats anything (I1, I2, I5, I6, I8, I14, I18, I23).

Every scenario runs once undisturbed, which gives the number of its round trips to PostgreSQL and the rows that it
leaves. Then it runs again with the connection cut at one of these round trips: before the request reaches the server,
after the server has answered, or while the server is at work. The callers do what clients and workers do after an
error. The rows, and the answers that clients rely on, have to be the same, and neither a connection nor a transaction
may be left behind.

`TIMEBALL_THOROUGH=1` cuts at every round trip; without it a few are chosen, the same ones each time.
"""

import asyncio
import contextlib
import random
import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from unittest import mock

import asyncpg
import msgspec
import pytest
import pytest_asyncio
from msgspec import Raw

from tests.conformance.test_backfills import advance, backfill, minutely
from tests.conformance.test_calendars import frozen, named
from tests.conformance.test_follows import end, fires, followed, follower
from tests.conformance.test_gates import claim as claim_all
from tests.conformance.test_large import key, with_key
from tests.conformance.test_ordering_keys import in_line
from tests.conformance.test_retention import prune
from tests.conformance.test_settling import chunk
from tests.conformance.test_windows import NIGHT, create
from tests.conformance.test_workflows import Crew, flow, task
from tests.support.builders import LEASE, TENANT, one_shot, plan_due, recurring, run, settlement, worker
from tests.support.migrated import empty_postgres, migrate_postgres
from tests.support.postgres import PostgresCluster
from tests.support.statement_proxy import Cut, StatementProxy, statement_proxy
from tests.support.thorough import THOROUGH
from timeball import system
from timeball.domain.dispatch.limits import Concurrency, RateLimit
from timeball.domain.dispatch.overlap import Overlap
from timeball.domain.dispatch.placement import Resources
from timeball.domain.errors import Unavailable
from timeball.domain.instant import DAY, HOUR, MINUTE, SECOND
from timeball.domain.retention import day_of
from timeball.domain.run.lifecycle import Cancelled, Failed, Failure, Lost, Released, Succeeded
from timeball.domain.task.retry import Retry
from timeball.domain.task.task import Http
from timeball.operation.context import OperationContext
from timeball.operation.jobs.pause import pause, resume
from timeball.operation.jobs.update import update
from timeball.operation.runs.cancel import cancel_job
from timeball.operation.runs.retry_run import retry_run
from timeball.ports.store.jobs import Idempotency, Submission, Submitted
from timeball.ports.store.registry import Key, RegisteredTask
from timeball.ports.store.runs import Claim, Claimed, SlotRequest
from timeball.ports.store.store import Store
from timeball.ports.worker_protocol import Progress, Started
from timeball.server.wakeups import LocalWakeups
from timeball.stores.postgres import store as postgres_store
from timeball.stores.postgres.connect import Address, Own
from timeball.stores.postgres.store import PostgresStore
from timeball.stores.sql.dialect import Query

MAX_CONNECTIONS = 3
SAMPLED_CUTS = 3
"""Cuts per scenario without TIMEBALL_THOROUGH."""
BOOM = Failed(Failure(kind="exit", message="boom", exit_code=1))
AT_ONCE = Retry(max_retries=1, backoff="fixed", base="0s")
NO_RETRY = Retry(max_retries=0)


class Server:
    """The store as a server uses it. A claim whose connection broke is not repeated by the store: the worker polls
    again, and names what it holds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._polls = 0
        self._held: list[int] = []
        self.answers: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, wants: list[SlotRequest], ahead: int) -> Claimed:
        self._polls += 1
        wants = [msgspec.structs.replace(want, poll=self._polls) for want in wants]
        try:
            claimed = await self._store.claim(wants, ahead)
        except Unavailable:
            for want in wants:
                await self._store.give_back(want.session, self._held, self._polls + 1)
            return await self.claim(wants, ahead)
        self._held += [each.token for each in claimed.claims]
        return claimed

    async def submit_and_claim(
        self, sent: list[Submission], wants: list[SlotRequest]
    ) -> tuple[list[Submitted], list[Claim]]:
        """As the operation does it: what was handed out in a transaction of unknown fate comes back with the next
        poll."""
        self._polls += 1
        wants = [msgspec.structs.replace(want, poll=self._polls) for want in wants]
        try:
            answers, claims = await self._store.submit_and_claim(sent, wants)
        except Unavailable:
            if not wants:
                raise
            answers, claims = await self._store.submit_and_claim(sent, ())
            for want in wants:
                await self._store.give_back(want.session, self._held, self._polls + 1)
        self._held += [each.token for each in claims]
        return answers, claims

    def note_answer(self, answer: object) -> None:
        self.answers.append(_masked(repr(answer)))


def context(store: Store) -> OperationContext:
    return OperationContext(store, system.SystemClock(), random.Random(7), LocalWakeups(lambda _: None))


# --- what is done ---------------------------------------------------------------------------------------------------


async def submit_plain(server: Any) -> None:
    await server.register(worker("w_1"), LEASE)
    server.note_answer(await server.submit([one_shot(server.now())]))
    server.note_answer(await server.submit([one_shot(server.now()) for _ in range(3)]))
    server.note_answer(await server.submit([one_shot(server.now()) for _ in range(100)]))


async def submit_with_keys(server: Any) -> None:
    sent = [
        msgspec.structs.replace(one_shot(server.now()), idempotency=Idempotency(f"key {at}", "same", b"answer"))
        for at in range(3)
    ]
    server.note_answer(await server.submit(sent))
    again = [msgspec.structs.replace(one_shot(server.now()), idempotency=sent[0].idempotency)]
    server.note_answer(await server.submit(again))


async def submit_special(server: Any) -> None:
    await server.put_calendar(named(frozen()))
    now = server.now()
    sent = [
        recurring(now, seconds=3600, calendars=["freeze"], tags=["a", "b"]),
        one_shot(now, ordering_key="k"),
        one_shot(now, concurrency=Concurrency("db", 1), rate_limit=RateLimit("api", 1, "1h")),
        one_shot(now, resources=Resources(cpu=1), runs_on=["gpu"]),
        with_key(one_shot(now), key(server, "payloads", "j_1")),
        flow(server, task("a"), task("b", "a")),
    ]
    server.note_answer(await server.submit(sent))
    await create(server, [NIGHT, NIGHT])


async def hand_on_submit(server: Any) -> None:
    await server.register(worker("w_1"), LEASE)
    wants = [SlotRequest("w_1", "", 5)]
    claims: list[Claim] = []
    for count in (1, 4):
        answers, handed = await server.submit_and_claim([one_shot(server.now()) for _ in range(count)], wants)
        server.note_answer(answers)
        claims += handed
    claims += await claim_all(server)
    assert len(claims) == 5
    await server.settle([settlement(each) for each in claims])


async def claim_and_settle_plain(server: Any) -> None:
    await server.register(worker("w_1"), LEASE)
    await server.submit([one_shot(server.now()) for _ in range(3)])
    claims = await claim_all(server, 3)
    assert len(claims) == 3
    await server.settle([settlement(each, Succeeded(Raw(b"1"))) for each in claims])


async def settle_every_way(server: Any) -> None:
    """Retry, dead letter, cancel, hand back, lost, and a success that is reported twice."""
    await server.register(worker("w_1"), LEASE)
    await server.submit([one_shot(server.now(), retry=AT_ONCE) for _ in range(5)])
    claims = await claim_all(server, 5)
    await server.request_cancel([claims[2].run_id])
    outcomes = [BOOM, Lost(), Cancelled(), Released(), Succeeded()]
    ends = [settlement(each, outcome) for each, outcome in zip(claims, outcomes, strict=True)]
    await server.settle(ends)
    await server.settle(ends[4:])
    again = await claim_all(server, 5)
    server.note_answer([each.attempt for each in again])
    await server.settle([settlement(each, BOOM) for each in again])
    for each in again:
        server.note_answer((await retry_run(context(server), TENANT, each.run_id)).status)


async def report(server: Any) -> None:
    await server.register(worker("w_1"), LEASE)
    await server.submit([one_shot(server.now())])
    (got,) = await claim_all(server, 1)
    start = Started(run_id=got.run_id, token=got.token, age=0)
    progress = Progress(run_id=got.run_id, token=got.token, fraction=0.5, note="half")
    server.note_answer(await server.note("w_1", [(start, server.now())], [progress]))
    server.note_answer(await server.append_logs("w_1", [chunk(got, seq, "line") for seq in range(3)], server.now()))
    server.note_answer(await server.renew([("w_1", got.session)], LEASE))
    await server.settle([settlement(got)])


async def take_turns(server: Any) -> None:
    await server.register(worker("w_1"), LEASE)
    await server.submit(in_line(server, [3, 2, 1], retry=NO_RETRY))
    for outcome in (Succeeded(), Cancelled(), BOOM):
        (got,) = await claim_all(server, 10)
        await server.settle([settlement(got, outcome)])
    await server.discard([got.run_id])


async def share_limits(server: Any) -> None:
    await server.register(worker("w_1"), LEASE)
    now = server.now()
    sent = [one_shot(now, concurrency=Concurrency("db", 1)) for _ in range(3)]
    # A claim whose answer was lost has spent its tokens; what is claimed again needs others.
    sent += [one_shot(now, rate_limit=RateLimit("api", 10, "1h")) for _ in range(2)]
    sent += [one_shot(now, task=Http(url="http://ill.example"), retry=NO_RETRY)]
    await server.submit(sent)
    claims = await claim_all(server)
    server.note_answer(len(claims))
    ill = Failed(Failure(kind="http", message="no answer"))
    ends = [
        settlement(each, ill, host="ill.example:80") if b"ill.example" in each.spec else settlement(each)
        for each in claims
    ]
    await server.settle(ends)
    server.note_answer(len(await claim_all(server)))
    await server.open_gates(100)


async def fit_workers(server: Any) -> None:
    await server.register(worker("w_1", cpu=2.0, labels=["gpu"]), LEASE)
    await server.register(worker("w_http", kinds=["http"]), LEASE)
    now = server.now()
    await server.submit([one_shot(now, resources=Resources(cpu=1)) for _ in range(3)])
    await server.submit([one_shot(now, task=Http(url="http://a")), one_shot(now, runs_on=["gpu"])])
    claims = await claim_all(server, session="w_http")
    claims += await claim_all(server)
    server.note_answer(len(claims))
    await server.settle([settlement(each) for each in claims])


async def plan_fires(server: Any) -> None:
    now = server.now()
    policies = (Overlap.ALLOW, Overlap.SKIP, Overlap.QUEUE, Overlap.CANCEL_PREVIOUS)
    await server.submit([recurring(now, seconds=3600, next_fire_at=now - SECOND, overlap=each) for each in policies])
    len(await plan_due(server))
    len(await plan_due(server))


async def rescue(server: Any) -> None:
    await server.register(worker("w_1"), LEASE)
    await server.submit([one_shot(server.now(), retry=AT_ONCE) for _ in range(2)])
    await claim_all(server)
    await server.register(worker("w_1"), LEASE)
    await _lapse(server)
    lost = await server.lapsed(500)
    server.note_answer(len(lost))
    await server.settle(lost)
    await server.register(worker("w_2"), LEASE)
    claims = await claim_all(server, session="w_2")
    server.note_answer([each.attempt for each in claims])
    server.note_answer(await server.end_session("w_2"))


async def _lapse(server: Any) -> None:
    async def work(tx: Any) -> None:
        await tx.execute(Query("lapse", "UPDATE workers SET lease_until = 1"))

    await server._db.write(work)


async def change_jobs(server: Any) -> None:
    await server.register(worker("w_1"), LEASE)
    now = server.now()
    sent = [recurring(now, seconds=3600, next_fire_at=now + 5 * SECOND, tags=["a"]) for _ in range(3)]
    await server.submit(sent)
    await plan_due(server)
    at = context(server)
    first, second, third = (each.job.id for each in sent)
    server.note_answer((await pause(at, TENANT, first)).status)
    server.note_answer((await resume(at, TENANT, first)).status)
    await plan_due(server)
    server.note_answer((await cancel_job(at, TENANT, second)).status)
    await update(at, TENANT, third, lambda spec: msgspec.structs.replace(spec, name="new", tags=["b"]))
    server.note_answer(await server.trigger([run(sent[0].job, server.now())]))
    (got,) = await claim_all(server)
    server.note_answer(await server.request_cancel([got.run_id]))
    await server.settle([settlement(got, Cancelled())])
    server.note_answer((await cancel_job(at, TENANT, third)).status)


async def step_backfill(server: Any) -> None:
    await server.register(worker("w_1"), LEASE)
    job = await minutely(server)
    await backfill(server, job, 3, parallelism=2)
    for _ in range(4):
        await advance(server)
        claims = await claim_all(server)
        server.note_answer(len(claims))
        await server.settle([settlement(each) for each in claims])


async def advance_workflow(server: Any) -> None:
    await server.register(worker("w_1"), LEASE)
    sent = flow(server, task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c"))
    await server.submit([sent])
    server.note_answer((await Crew(server).drive(sent.runs[0].id)).status)


async def follow_jobs(server: Any) -> None:
    await server.register(worker("w_1"), LEASE)
    first = await followed(server)
    second = await follower(server, first)
    await end(server, first)
    server.note_answer(len(await fires(server, second)))
    await end(server, first, BOOM)
    server.note_answer(len(await fires(server, second)))


async def keep_registry(server: Any) -> None:
    server.note_answer((await server.put_calendar(named(frozen()))).calendar.version)
    server.note_answer((await server.put_calendar(named(frozen((HOUR, 2 * HOUR))))).calendar.version)
    await server.put_task(RegisteredTask(tenant=TENANT, id="t", spec={"kind": "shell"}, version=0, updated_at=0))
    await server.add_key(Key(id="k_1", tenant=TENANT, name="k", role="admin", digest="d", created_at=0))
    await server.revoke_key("k_1")
    await server.delete_calendar(TENANT, "freeze")


async def expire_and_preempt(server: Any) -> None:
    await server.register(worker("w_1", slots=1), LEASE)
    now = server.now() - 10 * SECOND
    await server.submit([one_shot(now, start_deadline="1s")])
    await server.expire(500)
    await server.submit([one_shot(now, priority="low", preemptible=True)])
    (got,) = await claim_all(server, 1)
    await server.note("w_1", [(Started(run_id=got.run_id, token=got.token, age=0), server.now())], [])
    await server.submit([one_shot(now, priority="high")])
    server.note_answer(await server.preempt())
    server.note_answer(len(await server.pause_orders()))


async def prune_history(server: Any) -> None:
    await server.register(worker("w_1"), LEASE)
    past = day_of(server.now()) - 40 * DAY + HOUR
    kept = recurring(past, seconds=3600, next_fire_at=server.now() + HOUR)
    await server.submit([kept, *(one_shot(past, retry=AT_ONCE) for _ in range(3))])
    await server.trigger([run(kept.job, past + MINUTE)])
    claims = await claim_all(server)
    await server.append_logs("w_1", [chunk(each, 0, "line") for each in claims], 7)
    await server.settle([settlement(each) for each in claims])
    await prune(server)


SCENARIOS: dict[str, Callable[[Any], Awaitable[None]]] = {
    each.__name__: each
    for each in (
        submit_plain,
        submit_with_keys,
        submit_special,
        hand_on_submit,
        claim_and_settle_plain,
        settle_every_way,
        report,
        take_turns,
        share_limits,
        fit_workers,
        plan_fires,
        rescue,
        change_jobs,
        step_backfill,
        advance_workflow,
        follow_jobs,
        keep_registry,
        expire_and_preempt,
        prune_history,
    )
}


# --- what is left ---------------------------------------------------------------------------------------------------

_IDS = re.compile(r"\b[a-z]{1,2}_[0-9a-f]{28}\b")
_NUMBERS_OF_NOW = re.compile(r"\btoken=\d+|\b\d{15,}\b|\d{4}-\d\d-\d\dT[0-9:.]+Z?")
_OF_NOW = re.compile(r"(_at|_time|_until|^until|^since|^anchor|^token|^poll|^epoch|^upto|^day|^gate_rank|^slot)$")
"""Columns that differ from run to run."""
_TABLES = """
SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
AND NOT c.relispartition AND c.relname NOT IN ('migrations', 'slot_loads', 'daily_sums', 'departures', 'departing')
ORDER BY 1
"""
_BROKEN_PROMISES = {
    "I5: a fire has two runs": """
        SELECT job_id, fire_time FROM (SELECT job_id, fire_time, origin FROM runs
        UNION ALL SELECT job_id, fire_time, origin FROM history WHERE fires = 1) f
        WHERE origin IN ('schedule', 'catch_up') GROUP BY 1, 2 HAVING COUNT(*) > 1""",
    "I6: a run lives and has ended": "SELECT id FROM runs INTERSECT SELECT id FROM history",
    "I8: two attempts have one token": """
        SELECT token FROM (SELECT token FROM runs UNION ALL SELECT token FROM history UNION ALL SELECT token
        FROM attempts) t WHERE token IS NOT NULL GROUP BY 1 HAVING COUNT(*) > 1""",
    "I16: a run is blocked by nothing, or something holds one that is not": """
        SELECT id FROM runs WHERE (state = 'blocked') <> (holds <> 0)""",
    "I16: an ordering key lets two runs go, or another than its holder": """
        SELECT r.ordering_key FROM runs r LEFT JOIN turns t ON t.tenant = r.tenant AND t.ordering_key = r.ordering_key
        WHERE r.ordering_key IS NOT NULL AND (r.holds & 2) = 0 AND t.holder IS DISTINCT FROM r.id""",
    "I18: more permits than the limit": """
        SELECT r.permit FROM runs r JOIN gates g ON g.tenant = r.tenant AND g.gate = 'limit:' || r.permit
        GROUP BY r.permit, g.capacity HAVING COUNT(*) > g.capacity""",
    "I23: the loads of slots are not what a recount comes to": """
        SELECT minute FROM slot_loads WHERE minute >= 0 GROUP BY minute HAVING SUM(jobs) < 0""",
    "I23: attempts are not what a recount comes to": """
        SELECT r.id FROM (SELECT id, attempt - CASE WHEN state = 'running' THEN 1 ELSE 0 END AS over FROM runs
        UNION ALL SELECT id, GREATEST(attempt - 1, 0) FROM history WHERE status <> 'cancelled') r
        WHERE r.over <> (SELECT COUNT(*) FROM attempts a WHERE a.run_id = r.id)""",
    "I23: a backfill made another number of runs than it counts": """
        SELECT b.id FROM backfills b WHERE b.made <> (SELECT COUNT(*) FROM (SELECT retry_of FROM runs WHERE origin =
        'backfill' UNION ALL SELECT retry_of FROM history WHERE origin = 'backfill') r WHERE r.retry_of = b.id)""",
    "I19: a workflow run counts other open tasks than it has": """
        SELECT w.id FROM workflow_runs w WHERE w.state = 'live' AND w.open <> (SELECT COUNT(*) FROM workflow_tasks t
        WHERE t.flow_id = w.id AND t.idx < 0 AND t.state NOT IN ('succeeded', 'failed', 'skipped', 'cancelled'))""",
    "I14: an idempotency key of no job": """
        SELECT key FROM idempotency i WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = i.job_id)""",
}
_LEFT_OPEN = """
SELECT state, query FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
AND state LIKE 'idle in transaction%'
"""


def _masked(value: object) -> str:
    return _NUMBERS_OF_NOW.sub("<number>", _IDS.sub("<id>", str(value)))


class Bench:
    """A database, a proxy in front of it, and a store behind that proxy."""

    def __init__(
        self, store: PostgresStore, proxy: StatementProxy, dsn: str, behind: "asyncpg.Connection[Any]"
    ) -> None:
        self.store, self.proxy, self._dsn, self._behind = store, proxy, dsn, behind

    async def run(
        self, scenario: str, cut_at: int | None = None, how: Cut = Cut.BEFORE
    ) -> tuple[dict[str, list[str]], list[str]]:
        """The rows of each table and the answers of a scenario, and its round trips."""
        await self.empty()
        driver: Any = self.store._db
        driver._wait_for_replicas_until = 0
        server = Server(self.store)
        self.proxy.watch(cut_at, how)
        async with asyncio.timeout(60):
            await SCENARIOS[scenario](server)
        trips, cuts = self.proxy.round_trips, self.proxy.cuts
        self.proxy.watch()
        assert cuts == (cut_at is not None), "the scenario ended before its connection was cut"
        for promise, violations in _BROKEN_PROMISES.items():
            assert not await self._behind.fetch(violations), promise
        await self.nothing_is_left()
        return {"answers": server.answers, **await self._rows()}, trips

    async def empty(self) -> None:
        await empty_postgres(self._dsn)
        await self._behind.execute("DELETE FROM slot_loads")

    async def _rows(self) -> dict[str, list[str]]:
        left: dict[str, list[str]] = {}
        for (table,) in await self._behind.fetch(_TABLES):
            rows = await self._behind.fetch(f"SELECT * FROM {table}")
            left[table] = sorted(
                _masked([(name, value) for name, value in row.items() if not _OF_NOW.search(name)]) for row in rows
            )
        return left

    async def nothing_is_left(self) -> None:
        """No connection is taken, none is in a transaction, and the store works."""
        driver: Any = self.store._db
        assert driver._pool._working == 0
        assert driver._pool.size <= MAX_CONNECTIONS
        await self.store.ping()
        async with asyncio.timeout(60):
            while left := await self._behind.fetch(_LEFT_OPEN):
                await asyncio.sleep(0.01)
        assert not left


WAYS = ("own connections", "through a pooler") if THOROUGH else ("own connections",)


@pytest_asyncio.fixture(loop_scope="session", scope="module", params=WAYS)
async def bench(request: pytest.FixtureRequest, postgres: PostgresCluster) -> AsyncIterator[Bench]:
    """With a pooler, a transaction brings its settings along and every statement is in one."""
    dsn = postgres.create_database()
    migrate_postgres(dsn)
    async with contextlib.AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(statement_proxy(dsn))
        stack.enter_context(mock.patch.object(postgres_store, "TRY_AGAIN_AFTER", 0.002))
        stack.enter_context(mock.patch.object(postgres_store, "SAMPLE_EVERY", 3600))
        # So that a connection that was just made needs as many round trips as one that knows every statement.
        stack.enter_context(mock.patch.object(Own, "statement_cache_size", 0))
        store = PostgresStore(
            proxy.dsn,
            monotonic=system.monotonic,
            direct=dsn if request.param == "through a pooler" else None,
            min_connections=1,
            max_connections=MAX_CONNECTIONS,
        )
        driver: Any = store._db
        driver._direct = Address(dsn, 15)  # hints are not part of an operation
        behind = await asyncpg.connect(dsn)
        await store.open()
        yield Bench(store, proxy, dsn, behind)
        await store.close()
        await behind.close()
    postgres.drop_database(dsn)


@pytest.mark.timeout(600 if THOROUGH else 120)
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_connection_may_break_at_every_statement(bench: Bench, scenario: str) -> None:
    await bench.run(scenario)  # a new connection asks for the types that it meets
    undisturbed, trips = await bench.run(scenario)
    cuts = [(at, how) for at in range(len(trips)) for how in Cut]
    if not THOROUGH:
        cuts = random.Random(zlib.crc32(scenario.encode())).sample(cuts, SAMPLED_CUTS)
    for at, how in cuts:
        disturbed, asked = await bench.run(scenario, at, how)
        different = {name: (rows, undisturbed[name]) for name, rows in disturbed.items() if rows != undisturbed[name]}
        assert not different, f"cut {how} round trip {at} of {len(trips)}: {asked[at]}"


async def test_a_submit_that_is_cancelled_at_any_moment_is_there_as_a_whole_or_not_at_all(bench: Bench) -> None:
    """A client that goes away in the middle of its request cancels it: no transaction and no connection is left."""
    outcomes = set()
    for turns in range(0, 60, 2 if THOROUGH else 6):
        await bench.empty()
        sent = [recurring(bench.store.now(), tags=["a"]) for _ in range(100)]
        submitting = asyncio.create_task(bench.store.submit(sent))
        for _ in range(turns):
            await asyncio.sleep(0.0005)
        submitting.cancel()
        await asyncio.wait([submitting])
        await bench.nothing_is_left()
        found = len(await bench.store.jobs([each.job.id for each in sent]))
        assert found in (0, 100)
        assert submitting.cancelled() or found == 100, "what is acknowledged is there"
        outcomes.add(submitting.cancelled())
    assert True in outcomes, "none was cancelled in time"
