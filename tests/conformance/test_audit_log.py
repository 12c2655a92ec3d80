"""The audit log: a change and its entry are one transaction, and entries are never changed."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import msgspec
import pytest

from tests.conformance.conftest import Connect, KeptConnections, Tamper
from tests.support.builders import TENANT, bits, one_shot, recurring, run
from tests.support.migrated import PROTECT_AUDIT_LOG, UNPROTECT_AUDIT_LOG
from timeball.domain import ids
from timeball.domain.audit_log.change import AuditedRequest
from timeball.domain.audit_log.entry import SYSTEM_CHAIN, Actor, AuditEntry
from timeball.domain.audit_log.verification import ChainVerifier
from timeball.domain.errors import Conflict
from timeball.domain.job.job import Job, JobState
from timeball.domain.schedule.calendar import Calendar, NamedCalendar
from timeball.ports.store.audit_log import AuditFilter, ChainEnd
from timeball.ports.store.jobs import Amended, Amendment, Outdated, Submission
from timeball.ports.store.registry import Key, RegisteredTask
from timeball.ports.store.store import Store


def request(action: str = "job.pause", tenant: str = TENANT, **fields: Any) -> AuditedRequest:
    actor = Actor(kind="key", id="k_1", name="alice", user_id="u_1")
    return AuditedRequest(tenant=tenant, actor=actor, address="192.0.2.1", action=action, **fields)


def pausing(job: Job) -> Amendment:
    return Amendment(job=job, spec=job.spec, state=JobState.PAUSED, keep_schedule=True, pause_reason="because")


async def a_job(store: Store) -> Job:
    submission = recurring(store.now(), seconds=3600)
    await store.submit([submission])
    return (await store.jobs([submission.job.id]))[submission.job.id].job


async def entries(store: Store, chain: str = TENANT) -> list[AuditEntry]:
    return await store.audit_entries(chain, 0, 1_000)


async def problems(store: Store, chain: str = TENANT) -> list[tuple[str, int, int]]:
    verifier = ChainVerifier(chain)
    for entry in await entries(store, chain):
        verifier.add(entry)
    return [(each.kind.value, each.seq, each.last) for each in verifier.finish(await store.audit_head(chain))]


async def test_a_change_leaves_an_entry_with_who_when_where_before_and_after(store: Store) -> None:
    job = await a_job(store)
    since = store.now()
    [answer] = await store.audited(request()).amend([pausing(job)])
    assert isinstance(answer, Amended)
    [entry] = await entries(store)
    assert (entry.chain, entry.seq, entry.action, entry.resource, entry.resource_id) == (
        TENANT,
        1,
        "job.pause",
        "job",
        job.id,
    )
    assert entry.actor == Actor(kind="key", id="k_1", name="alice", user_id="u_1")
    assert entry.address == "192.0.2.1"
    assert entry.before == '{"state":"active"}'
    assert entry.after == '{"pauseReason":"because","state":"paused"}'
    assert since <= entry.at
    assert await problems(store) == []


async def test_a_change_that_did_not_happen_leaves_none(store: Store) -> None:
    job = await a_job(store)
    assert await store.audited(request()).amend([pausing(job.with_(version=7))]) == [Outdated()]
    assert await entries(store) == []
    assert await store.audit_head(TENANT) is None


async def test_a_change_that_failed_leaves_none(store: Store) -> None:
    name = "holidays"
    await store.put_calendar(calendar(store, name))
    await store.submit([recurring(store.now(), seconds=3600, calendars=(name,))])
    with pytest.raises(Conflict):
        await store.audited(request("calendar.delete")).delete_calendar(TENANT, name)
    assert await entries(store) == []


async def test_a_change_without_a_request_leaves_none(store: Store) -> None:
    await store.amend([pausing(await a_job(store))])
    assert await entries(store) == []


async def test_a_request_leaves_one_entry_for_all_its_transactions(store: Store) -> None:
    jobs = [await a_job(store) for _ in range(3)]
    bound = store.audited(request("jobs.bulk", selection={"action": "pause"}))
    for job in jobs:
        await bound.amend([pausing(job)])
    [entry] = await entries(store)
    assert (entry.resource, entry.resource_id, entry.after) == ("job", "", '{"action":"pause"}')


async def test_recurring_jobs_leave_one_entry_per_request_and_one_shots_none(store: Store) -> None:
    mine, other = request("job.create"), request("jobs.create")
    submissions = [
        msgspec.structs.replace(recurring(store.now(), seconds=3600), audited=mine),
        one_shot(store.now()),
        *(msgspec.structs.replace(recurring(store.now(), seconds=3600), audited=other) for _ in range(2)),
    ]
    await store.submit(submissions)
    first, second = await entries(store)
    assert (first.action, first.resource_id, first.before) == ("job.create", submissions[0].job.id, None)
    assert first.after is not None
    assert msgspec.json.decode(first.after)["state"] == "active"
    assert second.after is not None
    assert msgspec.json.decode(second.after) == {
        "count": 2,
        "jobs": sorted(each.job.id for each in submissions[2:]),
    }


async def test_a_repeated_submission_leaves_no_second_entry(store: Store) -> None:
    submission = msgspec.structs.replace(recurring(store.now(), seconds=3600), audited=request("job.create"))
    await store.submit([submission])
    await store.submit([submission])
    assert len(await entries(store)) == 1


async def test_the_row_of_a_job_has_the_credential(store: Store) -> None:
    known, unknown = one_shot(store.now()), one_shot(store.now())
    known = Submission(known.job.with_(created_by="k_1"), known.runs)
    await store.submit([known, unknown])
    found = await store.jobs([known.job.id, unknown.job.id])
    assert found[known.job.id].job.created_by == "k_1"
    assert found[unknown.job.id].job.created_by is None


def calendar(store: Store, name: str, description: str = "") -> NamedCalendar:
    found = msgspec.convert({"entries": [], "description": description}, Calendar)
    return NamedCalendar(tenant=TENANT, name=name, calendar=found, version=1, updated_at=store.now())


def task(store: Store, command: str) -> RegisteredTask:
    spec = {"kind": "shell", "command": command}
    return RegisteredTask(id="t", tenant=TENANT, spec=spec, version=1, updated_at=store.now())


def key(store: Store, tenant: str = TENANT) -> Key:
    key_id = ids.make("k", store.now(), bits)
    digest = hashlib.sha256(key_id.encode()).hexdigest()
    return Key(id=key_id, tenant=tenant, name="ci", role="worker", digest=digest, created_at=store.now())


async def test_tasks_leave_entries(store: Store) -> None:
    for command in ("a", "b"):
        await store.audited(request("task.put")).put_task(task(store, command))
    await store.audited(request("task.delete")).delete_task(TENANT, "t")
    assert not await store.audited(request("task.delete")).delete_task(TENANT, "t")
    assert [(each.before, each.after) for each in await entries(store)] == [
        (None, '{"command":"a","kind":"shell"}'),
        ('{"command":"a"}', '{"command":"b"}'),
        ('{"command":"b","kind":"shell"}', None),
    ]


async def test_calendars_leave_entries(store: Store) -> None:
    for description in ("a", "a", "b"):
        await store.audited(request("calendar.put")).put_calendar(calendar(store, "c", description))
    await store.audited(request("calendar.delete")).delete_calendar(TENANT, "c")
    found = await entries(store)
    assert [each.resource_id for each in found] == ["c", "c", "c"]
    is_given = [(each.before is not None, each.after is not None) for each in found]
    assert is_given == [(False, True), (True, True), (True, False)]


async def test_keys_leave_entries_in_the_chain_of_their_tenant_without_their_digests(store: Store) -> None:
    new = key(store, "acme")
    await store.audited(request("api-key.create")).add_key(new)
    await store.audited(request("api-key.revoke")).revoke_key(new.id)
    assert not await store.audited(request("api-key.revoke")).revoke_key(new.id)
    assert await entries(store) == []
    created, revoked = await entries(store, "acme")
    assert (created.resource, created.resource_id) == ("api-key", new.id)
    assert created.after is not None
    assert new.digest not in created.after
    assert msgspec.json.decode(created.after)["role"] == "worker"
    assert revoked.after == '{"revoked":true}'


async def test_runs_that_a_user_starts_cancels_or_discards_leave_entries(store: Store) -> None:
    job = await a_job(store)
    manual = run(job, store.now())
    await store.audited(request("job.run", resource="job", resource_id=job.id)).trigger([manual])
    await store.audited(request("run.cancel")).request_cancel([manual.id])
    await store.audited(request("run.cancel")).request_cancel([manual.id])
    started, cancelled = await entries(store)
    assert (started.resource_id, started.after) == (job.id, f'{{"run":"{manual.id}","status":"queued"}}')
    assert (cancelled.resource, cancelled.resource_id) == ("run", manual.id)


async def test_a_repeated_call_leaves_no_second_entry(store: Store) -> None:
    """A call is repeated if its answer was lost."""
    job = await a_job(store)
    manual, successor = run(job, store.now()), run(job, store.now())
    await store.trigger([manual])
    await store.request_cancel([manual.id])
    for _ in range(2):
        await store.audited(request("run.replay")).replay([(manual.id, successor)], successor.id)
        await store.audited(request("job.run")).trigger([successor])
    [entry] = await entries(store)
    assert (entry.resource_id, entry.after) == (manual.id, f'{{"followedBy":"{successor.id}"}}')


async def test_an_ordered_drain_leaves_an_entry(store: Store) -> None:
    await store.audited(request("worker.drain")).drain("w_1")
    [entry] = await entries(store, SYSTEM_CHAIN)
    assert (entry.resource, entry.resource_id, entry.after) == ("worker", "w_1", '{"draining":true}')


async def test_the_admin_key_of_a_server_leaves_entries(store: Store) -> None:
    start = request("api-key.bootstrap")
    old, new = key(store), key(store)
    old, new = (msgspec.structs.replace(each, role="system") for each in (old, new))
    for _ in range(2):  # a restart changes nothing
        await store.audited(msgspec.structs.replace(start)).allow_bootstrap_key(old, "configured", old.digest)
    await store.audited(msgspec.structs.replace(start)).allow_bootstrap_key(new, "configured", old.digest)
    await store.audited(msgspec.structs.replace(start)).allow_bootstrap_key(old, "configured", new.digest)
    first, second, third = await entries(store)
    assert [each.resource_id for each in (first, second, third)] == [old.id, new.id, old.id]
    assert (first.before, second.before, third.before) == (None, None, '{"revoked":true}')
    revoked = [msgspec.json.decode(each.after or "").get("revokes") for each in (first, second, third)]
    assert revoked == [None, [old.id], [new.id]]
    assert old.digest not in f"{first.after}{third.after}"


async def test_a_page_compares_a_bounded_number_of_entries(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timeball.stores.sql.audit_log.reading.MAX_COMPARED", 3)
    jobs = [await a_job(store) for _ in range(10)]
    for nth, job in enumerate(jobs):
        await store.audited(request("job.resume" if nth == 1 else "job.pause")).amend([pausing(job)])
    found: list[list[int]] = []
    cursors: list[str | None] = [None]
    while True:
        page = await store.audit_log(AuditFilter(chain=TENANT, action="job.resume"), cursors[-1], 10)
        found.append([each.seq for each in page.items])
        if page.next_cursor is None:
            break
        cursors.append(page.next_cursor)
    assert (found, cursors) == ([[], [], [2], []], [None, "8", "5", "2"])
    by_resource = await store.audit_log(AuditFilter(chain=TENANT, resource=jobs[1].id), None, 10)
    assert ([each.seq for each in by_resource.items], by_resource.next_cursor) == ([2], None)


async def test_the_end_of_a_chain_has_its_head_and_its_last_entry(
    store: Store, unprotected: Callable[[str], Awaitable[None]]
) -> None:
    assert await store.audit_end(TENANT) == ChainEnd(None, 0)
    await five_entries(store)
    head = await store.audit_head(TENANT)
    assert await store.audit_end(TENANT) == ChainEnd(head, 5)
    await unprotected("DELETE FROM audit_log WHERE seq = 5")
    assert await store.audit_end(TENANT) == ChainEnd(head, 4)
    await unprotected("DELETE FROM audit_heads")
    assert await store.audit_end(TENANT) == ChainEnd(None, 4)


async def test_changes_at_the_same_time_make_one_chain_per_tenant(stores: tuple[Store, Store]) -> None:
    here, there = stores
    jobs = [await a_job(here) for _ in range(40)]

    async def pause(nth: int, job: Job) -> None:
        tenant = ("a", "b", "c")[nth % 3]
        [answer] = await (here, there)[nth % 2].audited(request(tenant=tenant)).amend([pausing(job)])
        assert isinstance(answer, Amended)

    await asyncio.gather(*(pause(nth, job) for nth, job in enumerate(jobs)))
    found = {chain: await entries(here, chain) for chain in await here.audit_chains()}
    assert {chain: [each.seq for each in some] for chain, some in found.items()} == {
        "a": [*range(1, 15)],
        "b": [*range(1, 14)],
        "c": [*range(1, 14)],
    }
    assert [await problems(here, chain) for chain in found] == [[], [], []]


async def test_entries_are_listed_newest_first_in_pages_and_by_filter(store: Store) -> None:
    jobs = [await a_job(store) for _ in range(5)]
    for nth, job in enumerate(jobs):
        await store.audited(request("job.pause" if nth % 2 else "job.resume")).amend([pausing(job)])

    async def seqs(cursor: str | None = None, limit: int = 10, **fields: Any) -> list[int]:
        page = await store.audit_log(AuditFilter(chain=TENANT, **fields), cursor, limit)
        return [each.seq for each in page.items]

    first = await store.audit_log(AuditFilter(chain=TENANT), None, 2)
    assert ([each.seq for each in first.items], first.next_cursor) == ([5, 4], "4")
    assert await seqs(first.next_cursor, 2) == [3, 2]
    assert await seqs("2", 2) == [1]
    assert await seqs(action="job.pause") == [4, 2]
    assert await seqs(action="job.*") == [5, 4, 3, 2, 1]
    assert await seqs(action="task.*") == []
    assert await seqs(resource=jobs[2].id) == [3]
    assert await seqs(actor="alice") == await seqs(actor="k_1") == await seqs(actor="u_1") == [5, 4, 3, 2, 1]
    assert await seqs(actor="bob") == []
    at = [each.at for each in await entries(store)]
    assert await seqs(since=at[1], until=at[3]) == [each for each in (3, 2) if at[1] <= at[each - 1] < at[3]]
    assert await store.audit_log(AuditFilter(chain="other"), None, 10) == await store.audit_log(
        AuditFilter(chain="*"), None, 10
    )


@pytest.fixture
def refused(tamper: Tamper) -> Callable[[str], Awaitable[str]]:
    """Runs a statement that the database must refuse, and returns the reason."""

    async def run_refused(statement: str) -> str:
        try:
            await tamper(statement)
        except Exception as error:
            return str(error)
        return ""

    return run_refused


@pytest.fixture
def unprotected(kept: KeptConnections | None, tamper: Tamper) -> Callable[[str], Awaitable[None]]:
    """Runs a statement without the protection of the database, as an attacker with all rights could."""

    async def run_unprotected(statement: str) -> None:
        if kept is None:
            await tamper("DROP TRIGGER IF EXISTS audit_log_without_updates")
            await tamper("DROP TRIGGER IF EXISTS audit_log_without_deletes")
            await tamper(statement)
        else:
            await tamper(f"{UNPROTECT_AUDIT_LOG}; {statement}; {PROTECT_AUDIT_LOG}")

    return run_unprotected


async def five_entries(store: Store) -> None:
    for _ in range(5):
        await store.audited(request()).amend([pausing(await a_job(store))])


async def test_the_database_refuses_to_change_or_delete_entries(
    store: Store, refused: Callable[[str], Awaitable[str]]
) -> None:
    await five_entries(store)
    assert "never changed" in await refused("UPDATE audit_log SET actor_name = 'mallory' WHERE seq = 2")
    assert "deleted with their tenant" in await refused("DELETE FROM audit_log WHERE seq = 2")
    assert await problems(store) == []


async def test_a_planted_edit_and_a_planted_deletion_are_found(
    store: Store, unprotected: Callable[[str], Awaitable[None]]
) -> None:
    await five_entries(store)
    await unprotected("UPDATE audit_log SET actor_name = 'mallory' WHERE seq = 2")
    assert await problems(store) == [("edited", 2, 2)]
    await unprotected("DELETE FROM audit_log WHERE seq = 4")
    assert await problems(store) == [("edited", 2, 2), ("deleted", 4, 4)]
    await unprotected("DELETE FROM audit_log WHERE seq = 5")
    assert await problems(store) == [("edited", 2, 2), ("truncated", 4, 5)]


async def test_the_values_survive_what_a_database_cannot_store(store: Store) -> None:
    strange = {"kind": "shell", "command": "a\x00b", "number": 2**70, "float": 1e300, "text": "\u2028\U0001f600"}
    spec = msgspec.structs.replace(task(store, "x"), spec=strange)
    await store.audited(request("task.put")).put_task(spec)
    [entry] = await entries(store)
    assert entry.after is not None
    assert await problems(store) == []


async def test_the_end_of_one_chain_is_the_only_lock(connect: Connect, kept: KeptConnections | None) -> None:
    """While a transaction holds the end of a chain, changes of other tenants and changes without a request go on."""
    store = await connect()
    await store.audited(request()).amend([pausing(await a_job(store))])
    if kept is None:
        return  # one writer
    connection = await asyncpg.connect(kept.dsn)
    try:
        async with connection.transaction():
            await connection.execute("SELECT * FROM audit_heads WHERE chain = $1 FOR UPDATE", TENANT)
            waiting = asyncio.create_task(store.audited(request()).amend([pausing(await a_job(store))]))
            await store.audited(request(tenant="other")).amend([pausing(await a_job(store))])
            await store.amend([pausing(await a_job(store))])
            assert not waiting.done()
        await waiting
    finally:
        await connection.close()
    assert len(await entries(store)) == 2
