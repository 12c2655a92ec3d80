"""Jobs without ordering rules do not pay for these rules: the statements of such jobs, from submit to end, are
counted."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import asyncpg
import pytest
from msgspec import Raw

from tests.conformance.test_gates import claim
from tests.support.builders import one_shot, plan_due, recurring, settlement
from timeball.domain.audit_log.change import AuditedChange
from timeball.domain.dispatch.slot_pools import PoolRoom, SlotPool, SlotPools
from timeball.domain.instant import SECOND
from timeball.domain.run.lifecycle import Failed, Failure, Succeeded
from timeball.domain.run.status import Status
from timeball.domain.task.task import Http, Python, Script, Shell, Task, host_of
from timeball.ports.store.changes import ChangeBatch
from timeball.ports.store.runs import SlotRequest
from timeball.ports.store.store import Store
from timeball.stores.postgres.store import _CLOCK
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Row, Tx, Work
from timeball.stores.sql.runs import gates
from timeball.stores.sql.schema.table import Table

JOBS = 1_000
ONE_SHOTS = [
    "insert 10 columns of jobs",
    "insert 12 columns of runs",
    "leased_sessions",
    "claimable_of_level",
    "tokens",
    "claim_for_one",
    "record_successes",
    "delete_runs",
]
"""For a thousand jobs in one batch."""
RECURRING = [
    "due_jobs",
    "lock_planned",
    "now",
    "live_runs_of_jobs",
    "insert 12 columns of runs",
    "move_jobs",
    "leased_sessions",
    "claimable_of_level",
    "tokens",
    "claim_for_one",
    "lock_job_ids",
    "lock_attempts",
    "now_and_health",
    "insert 27 columns of history",
    "delete_runs",
    "release",
    "close_spans",
]

ILL = Http(url="https://ill.example/x")
WELL = Http(url="https://well.example/x")
NO_ANSWER = Failed(Failure(kind="http", message="no answer"))


class _Recorder:
    """A transaction that writes down what is asked of it."""

    def __init__(self, tx: Tx, said: list[str]) -> None:
        self._tx = tx
        self._said = said
        self.audited: list[AuditedChange] | None = None

    @property
    def may_be_done(self) -> bool:
        return self._tx.may_be_done

    @property
    def changes(self) -> list[ChangeBatch]:
        return self._tx.changes

    @property
    def is_watched(self) -> bool:
        return self._tx.is_watched

    async def fetch(self, query: Query, **parameters: Any) -> list[Row]:
        self._said.append(query.name)
        return await self._tx.fetch(query, **parameters)

    async def fetch_unlocked(self, query: Query, **parameters: Any) -> list[Row]:
        self._said.append(query.name)
        return await self._tx.fetch_unlocked(query, **parameters)

    async def execute(self, query: Query, **parameters: Any) -> int:
        self._said.append(query.name)
        return await self._tx.execute(query, **parameters)

    async def insert(self, table: Table, rows: Sequence[Row], **same: Any) -> None:
        self._said.append(f"insert {len(table.columns)} columns of {table.name}")
        await self._tx.insert(table, rows, **same)

    async def insert_missing(self, table: Table, rows: Sequence[Row]) -> None:
        self._said.append(f"insert {len(table.columns)} columns of {table.name} that are missing")
        await self._tx.insert_missing(table, rows)

    async def compute(self, work: Callable[[], Any]) -> Any:
        return await self._tx.compute(work)

    async def tokens(self, count: int) -> Sequence[int]:
        self._said.append("tokens")
        return await self._tx.tokens(count)


@pytest.fixture
def said(store: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements of a store from now on."""
    statements: list[str] = []
    read, write = store._db.read, store._db.write

    async def recorded_read(work: Work[Any], **how: bool) -> Any:
        return await read(lambda tx: work(_Recorder(tx, statements)), **how)

    async def recorded_write(work: Work[Any], *, once: bool = False) -> Any:
        return await write(lambda tx: work(_Recorder(tx, statements)), once=once)

    monkeypatch.setattr(store._db, "read", recorded_read)
    monkeypatch.setattr(store._db, "write", recorded_write)
    return statements


async def run_all(store: Store) -> int:
    claims = (await store.claim([SlotRequest("w_1", "", JOBS)], 0)).claims
    await store.settle([settlement(claim) for claim in claims])
    return len(claims)


async def test_one_shots_take_as_few_statements_as_ever(store: Store, said: list[str]) -> None:
    await store.submit([one_shot(store.now()) for _ in range(JOBS)])
    assert await run_all(store) == JOBS
    assert said == ONE_SHOTS


KINDS: dict[str, Task] = {
    "http": WELL,
    "shell": Shell(command=["true"]),
    "script": Script(script="nothing.sh"),
    "python": Python(function="noop"),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_kinds_take_the_same_statements(store: Store, said: list[str], kind: str) -> None:
    """Results need no other statement. A batch with calls of a host takes one look at the hosts that fail."""
    await store.submit([one_shot(store.now(), task=KINDS[kind]) for _ in range(JOBS)])
    claims = (await store.claim([SlotRequest("w_1", "", JOBS)], 0)).claims
    ended = Succeeded(Raw(b'{"status":200}'))
    await store.settle([settlement(claim, ended, host=host_of(KINDS[kind])) for claim in claims])
    expected = list(ONE_SHOTS)
    if kind == "http":
        expected.insert(expected.index("record_successes"), "failing_hosts")
    assert said == expected


POOLS = SlotPools([SlotPool("processes", 32, ["shell", "script"])])


async def test_runs_that_have_room_in_their_pool_take_the_same_statements(store: Store, said: list[str]) -> None:
    await store.submit(
        [one_shot(store.now(), task=KINDS[kind]) for kind in (*["python"] * (JOBS - 32), *["shell"] * 32)]
    )
    claims = (await store.claim([with_room(JOBS, 32)], 0)).claims
    await store.settle([settlement(claim) for claim in claims])
    assert sum(claim.pool == "processes" for claim in claims) == 32
    assert said == ONE_SHOTS


async def test_a_herd_that_waits_for_its_pool_is_set_aside_once(store: Store, said: list[str]) -> None:
    """A claim moves the runs that a full pool keeps waiting. Later claims find as many as have room, and the runs of
    others, with as many statements however many wait."""
    await store.submit([one_shot(store.now(), task=KINDS["shell"]) for _ in range(JOBS)])
    room = 32
    claimed = await store.claim([with_room(500, room)], 0)
    while claimed.again:
        room -= len(claimed.claims)
        claimed = await store.claim([with_room(500, room)], 0)
    assert said.count("wait_for_kind") == 2, "500 candidates at a time"
    for others in (0, 10):
        await store.submit([one_shot(store.now(), task=KINDS["python"]) for _ in range(others)])
        said.clear()
        claims = (await store.claim([with_room(500, 32)], 0)).claims
        assert Counter(claim.pool for claim in claims) == Counter({"processes": 32, None: others})
        assert said == [
            "leased_sessions",
            *(["claimable_of_level"] if others else []),
            "profiles_waiting",
            "fitting_runs",
            "tokens",
            "claim",
        ]


def with_room(slots: int, processes: int) -> SlotRequest:
    return SlotRequest("w_1", "", slots, room=PoolRoom(POOLS, {"processes": processes}))


async def test_a_listener_costs_no_statement(store: Store, said: list[str]) -> None:
    """What changed is recorded from rows that the transactions have anyway."""
    recorded: list[ChangeBatch] = []
    store.watch_changes(recorded.extend)
    await store.submit([one_shot(store.now()) for _ in range(JOBS)])
    assert await run_all(store) == JOBS
    assert said == ONE_SHOTS
    assert [batch.count for batch in recorded] == [JOBS] * 4, "one batch per statement: jobs, runs, claims, ends"
    said.clear()
    due = store.now() - SECOND
    await store.submit([recurring(due - 10 * SECOND, seconds=10, next_fire_at=due) for _ in range(JOBS)])
    said.clear()
    await plan_due(store, limit=JOBS)
    assert await run_all(store) == JOBS
    assert said == RECURRING


async def test_nothing_is_recorded_without_a_listener(store: Store) -> None:
    recorded: list[ChangeBatch] = []
    store.watch_changes(recorded.extend)
    store.watch_changes(None)
    await store.submit([one_shot(store.now())])
    assert await run_all(store) == 1
    assert recorded == []


@pytest.mark.parametrize("kept", ["postgres"], indirect=True)
async def test_jobs_that_are_submitted_together_take_one_round_trip_or_three(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    for method in ("execute", "fetch", "fetchval", "copy_records_to_table"):
        original = getattr(asyncpg.Connection, method)

        async def recorded(connection: Any, sql: str, *rest: Any, original: Any = original, **how: Any) -> Any:
            asked.append(sql)
            return await original(connection, sql, *rest, **how)

        monkeypatch.setattr(asyncpg.Connection, method, recorded)

    def told() -> list[str]:
        return [sql for sql in asked if sql != _CLOCK and "LISTEN" not in sql]

    await store.submit([one_shot(store.now()) for _ in range(50)])
    (statement,) = told()
    assert "INSERT INTO jobs" in statement
    assert "INSERT INTO runs" in statement
    assert await run_all(store) == 50
    asked.clear()
    _, claims = await store.submit_and_claim([one_shot(store.now())], [SlotRequest("w_1", "", 1)])
    assert len(claims) == 1
    ready, crew, insert = told()
    assert "gates" in ready
    assert "nextval" in ready
    assert "workers" in crew
    assert insert.startswith("WITH")


async def test_recurring_jobs_take_as_few_statements_as_ever(store: Store, said: list[str]) -> None:
    due = store.now() - SECOND
    await store.submit([recurring(due - 10 * SECOND, seconds=10, next_fire_at=due) for _ in range(JOBS)])
    said.clear()
    await plan_due(store, limit=JOBS)
    assert await run_all(store) == JOBS
    assert said == RECURRING


async def fail_a_call(store: Store, task: Http = ILL) -> None:
    await store.submit([one_shot(store.now(), task=task)])
    (got,) = await claim(store)
    await store.settle([settlement(got, NO_ANSWER, host=host_of(task))])


async def test_one_shots_do_not_notice_an_ill_host(store: Store, said: list[str]) -> None:
    """I28: what one host costs is paid by the jobs that call it."""
    await fail_a_call(store)
    said.clear()
    await store.submit([one_shot(store.now()) for _ in range(JOBS)])
    assert await run_all(store) == JOBS
    assert said == ONE_SHOTS


async def test_recurring_jobs_do_not_notice_an_ill_host(store: Store, said: list[str]) -> None:
    await fail_a_call(store)
    due = store.now() - SECOND
    await store.submit([recurring(due - 10 * SECOND, seconds=10, next_fire_at=due) for _ in range(JOBS)])
    said.clear()
    await plan_due(store, limit=JOBS)
    assert await run_all(store) == JOBS
    assert said == RECURRING


async def test_calls_to_other_hosts_take_one_look_more_while_a_host_is_ill(store: Store, said: list[str]) -> None:
    await fail_a_call(store)
    said.clear()
    await store.submit([one_shot(store.now(), task=WELL) for _ in range(JOBS)])
    claims = (await store.claim([SlotRequest("w_1", "", JOBS)], 0)).claims
    await store.settle([settlement(each, host=host_of(WELL)) for each in claims])
    expected = list(ONE_SHOTS)
    expected.insert(expected.index("claimable_of_level") + 1, "failing_hosts")
    expected.insert(expected.index("record_successes"), "failing_hosts")
    assert said == expected


async def test_a_fresh_job_is_born_claimed_while_a_host_is_ill(store: Store, said: list[str]) -> None:
    await fail_a_call(store)
    said.clear()
    for task in ({}, {"task": WELL}):
        _, claims = await store.submit_and_claim([one_shot(store.now(), **task)], [SlotRequest("w_1", "", 1)])
        assert len(claims) == 1
    assert "leased_sessions" not in said


async def test_an_answer_of_the_ill_host_is_heard_among_other_successes(store: Store, said: list[str]) -> None:
    """One batch of settlements: the call that concerns the host is judged, the others move at once."""
    await fail_a_call(store)
    await store.submit([one_shot(store.now(), **task) for task in ({}, {"task": ILL}, {"task": WELL})])
    claims = await claim(store)
    hosts = {each.run_id: _host(each.spec) for each in claims}
    said.clear()
    settled = await store.settle([settlement(each, host=hosts[each.run_id]) for each in claims])
    assert [each is not None and each.status for each in settled] == [Status.SUCCEEDED] * 3
    assert [each.run_id for each in settled if each is not None] == [each.run_id for each in claims]
    assert said.count("record_successes") == 1
    assert said.count("lock_attempts") == 1
    said.clear()
    await store.submit([one_shot(store.now(), task=WELL)])
    await claim(store)
    assert "failing_hosts" not in said  # its answer closed the circuit


async def test_more_ill_hosts_than_are_named_still_have_their_circuits(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "MAX_FAILING_HOSTS", 1)
    others = [Http(url=f"https://ill-{n}.example/") for n in range(3)]
    for _ in range(5):
        for task in others:
            await fail_a_call(store, task)
    await store.submit([one_shot(store.now(), task=task) for task in (*others, WELL)])
    assert [_host(each.spec) for each in await claim(store)] == [host_of(WELL)]


def _host(spec: bytes) -> str | None:
    for task in (ILL, WELL, *(Http(url=f"https://ill-{n}.example/") for n in range(3))):
        if task.url.encode() in spec:
            return host_of(task)
    return None
