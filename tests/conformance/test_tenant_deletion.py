"""A deleted tenant leaves nothing but the receipt, however often the deletion is interrupted, and the others keep all.

The tables are read from the schema: a new table with rows of tenants is covered by itself."""

import random
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import asdict, replace

from tests.support.builders import TENANT, job, one_shot, recurring, settlement
from tests.support.history import add, finished
from timeball import system
from timeball.domain import ids, instant
from timeball.domain.audit_log.change import AuditedRequest
from timeball.domain.audit_log.entry import SYSTEM_CHAIN, Actor
from timeball.domain.audit_log.verification import ChainVerifier
from timeball.domain.errors import Conflict, NotFound
from timeball.domain.instant import MINUTE, Micros
from timeball.domain.job import large_values
from timeball.domain.job.job import Job
from timeball.domain.run import archive_record
from timeball.domain.run.archive_record import Manifest
from timeball.domain.schedule import calendar as calendars
from timeball.domain.schedule.calendar import Calendar, NamedCalendar
from timeball.domain.tenant import TENANT_DELETED, Tenant
from timeball.object_stores.bucket import Bucket, open_objects
from timeball.operation.context import OperationContext
from timeball.operation.storage import archive as writing
from timeball.operation.storage.archive import archive_day
from timeball.operation.storage.large_values import LargeValueStore, ValuePlace
from timeball.operation.storage.search_archive import Archive
from timeball.operation.tenants.deleter import TenantDeleter
from timeball.ports.store.jobs import NoTenant
from timeball.ports.store.maintenance import Deposed, Lead
from timeball.ports.store.queries import RunFilter
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.ports.store.store import Store
from timeball.server.wakeups import LocalWakeups
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.maintenance.owned_tables import FAMILIES
from timeball.stores.sql.schema.runs import LOGS, HistoryRow

GONE, OTHER = "acme-zq", "other-zq"
TENANTS = (TENANT, GONE, OTHER)
DAY_OF_RUNS = date(2026, 3, 2)
NOON: Micros = instant.parse("2026-03-02T12:00:00Z")
EARLY: Micros = instant.parse("2026-03-01T00:00:00Z")
OF_ALL = {
    *("meta", "leases", "slot_loads", "departures", "departing", "stats_writers", "migrations", "sign_in_attempts"),
    "usage_marks",
}
"""Tables whose rows belong to no tenant."""
MADE_BY_REQUESTS = {"tenants", "tenant_deletions", "audit_log", "audit_heads", "runs"}
"""Tables with rows of tenants that the test does not fill directly."""
ACTOR = Actor(kind="key", id="k_root", name="root", user_id="u_root")
Dump = dict[str, list[dict[str, Any]]]


class Killed(BaseException):
    """Ends the deletion at once, as kill -9 does: nothing handles it."""


EFFECTS = {"put", "note_deletion", "stop_jobs", "delete_rows", "end_deletion", "request_cancel", "amend"}


class Deadly:
    """A store or object storage with which the deletion is killed, before or after a call with an effect."""

    def __init__(self, inner: Any, life: "Life") -> None:
        self._inner = inner
        self._life = life

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._deadly(found) if name in EFFECTS else found

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            await self._deadly(self._inner.delete)([key])

    def _deadly(self, found: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any, **named: Any) -> Any:
            self._life.spend()
            answer = await found(*arguments, **named)
            self._life.spend()
            return answer

        return call


class Life:
    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


async def run_sql(store: Store, work: Callable[[Tx], Awaitable[Any]]) -> Any:
    return await store._db.write(work)  # type: ignore[attr-defined]


async def columns(store: Store) -> dict[str, dict[str, tuple[str, bool]]]:
    """The tables, each with its columns: the type, and whether it is part of the primary key."""

    async def sqlite(tx: Tx) -> list[Any]:
        return await tx.fetch(
            Query(
                "columns",
                "SELECT s.name, c.name, c.type, c.pk > 0 FROM sqlite_schema s, pragma_table_info(s.name) c "
                "WHERE s.type = 'table'",
            )
        )

    async def postgres(tx: Tx) -> list[Any]:
        return await tx.fetch(
            Query(
                "columns",
                "SELECT c.relname, a.attname, format_type(a.atttypid, NULL), "
                "EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary "
                "AND a.attnum = ANY (i.indkey)) "
                "FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
                "WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition",
            )
        )

    found: dict[str, dict[str, tuple[str, bool]]] = {}
    for table, column, kind, is_key in await run_sql(store, sqlite if store.kind == "sqlite" else postgres):
        found.setdefault(table, {})[column] = (kind.upper(), bool(is_key))
    return found


async def dump(store: Store) -> Dump:
    async def work(tx: Tx) -> Dump:
        found: Dump = {}
        for table, named in schema.items():
            rows = await tx.fetch(Query("dump", f"SELECT {', '.join(named)} FROM {table}"))
            found[table] = [dict(zip(named, row, strict=True)) for row in rows]
        return found

    schema = await columns(store)
    return await run_sql(store, work)


def marks(tenant: str, owned: dict[str, str]) -> list[bytes]:
    return [each.encode() for each in (tenant, *owned.values())]


def has_mark(row: dict[str, Any], of: Sequence[bytes]) -> bool:
    text = repr(sorted(row.items())).encode()
    return any(mark in text for mark in of)


async def fill_tables(store: Store, tenant: str, owned: dict[str, str], run: HistoryRow) -> None:
    """Insert a row into every table that may have rows of tenants."""
    parents = {
        "tenant": tenant, "job_id": owned["job"], "follower": owned["job"], "run_id": owned["run"],
        "flow_id": owned["run"], "by_run": owned["run"], "holder": owned["run"], "cause": owned["run"],
        "key_id": owned["key"], "profile": f"5|1|0|0|gpu ~{tenant}",
    }  # fmt: skip
    own_ids = {"jobs": owned["job"], "history": owned["run"], "workflow_runs": owned["run"], "keys": owned["key"]}
    words = {"state": "cancelled", "role": "only:viewer", "tally": "{}", "spec": f'{{"of": "{tenant}"}}'}

    def value(table: str, column: str, kind: str) -> Any:
        if column == "id" and table in own_ids:
            return own_ids[table]
        if kind in ("BIGINT", "DOUBLE PRECISION"):
            return 1
        if kind in ("BLOB", "BYTEA"):
            return tenant.encode()
        return parents.get(column, words.get(column, f"{tenant} {table} {column}"))

    async def work(tx: Tx) -> None:
        for table, named in schema.items():
            if table in OF_ALL | MADE_BY_REQUESTS:
                continue
            row = {column: value(table, column, kind) for column, (kind, _) in named.items()}
            if table == "keys":
                row |= {"scopes": None, "labels": None, "tenants": None, "user_id": None, "bootstrap": None}
            elif table == "attempts":
                row["failure"] = None
            elif table == "history":
                row = asdict(run)
            places = ", ".join(f":{column}" for column in row)
            insert = Query("fill", f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})")
            await tx.execute(insert, **row)

    schema = await columns(store)
    await run_sql(store, work)


def audited(store: Store, tenant: str, action: str = "calendar.put") -> Store:
    return store.audited(AuditedRequest(tenant=tenant, actor=ACTOR, address="192.0.2.7", action=action))


async def put_calendar(store: Store, tenant: str, name: str) -> None:
    calendar = Calendar(entries=[calendars.Entry(dates=["2026-12-25"])])
    await audited(store, tenant).put_calendar(
        NamedCalendar(tenant=tenant, name=name, calendar=calendar, version=1, updated_at=1)
    )


class Scene:
    """Three tenants with everything that a tenant can have."""

    def __init__(self, store: Store, objects: Bucket) -> None:
        self.store = store
        self.objects = objects
        self.owned: dict[str, dict[str, str]] = {}
        self.claims: list[Claim] = []
        self.large_values = LargeValueStore(ValuePlace(objects, store, 7, system.SystemClock()))

    async def fill(self) -> None:
        store = self.store
        for tenant in (GONE, OTHER):
            await audited(store, tenant, "tenant.create").create_tenant(
                Tenant(id=tenant, created_at=EARLY, updated_at=1)
            )
        archived: list[Job] = []
        for tenant in TENANTS:
            made = job(EARLY, tenant=tenant)
            old = finished(made, NOON, len(archived) + 1)
            own = {
                "job": made.id, "run": old.id, "key": ids.make("k", EARLY, random.Random(tenant)),
            }  # fmt: skip
            self.owned[tenant] = own
            await fill_tables(store, tenant, own, old)
            more = [finished(made, NOON + at, 100 * len(archived) + at + 5) for at in range(1, 30)]
            await add(store, more)
            own |= {f"run {at}": row.id for at, row in enumerate(more)}
            await self._add_logs([row.id for row in more])
            archived.append(made)
            for number in range(3):
                await put_calendar(store, tenant, f"calendar {number} of {tenant}")
            active, running = recurring(store.now(), tenant=tenant), one_shot(store.now(), tenant=tenant)
            [_, _] = await store.submit([active, running])
            own |= {"active": active.job.id, "one_shot": running.job.id}
            await self._put_objects(tenant, own)
        self.claims = list((await store.claim([SlotRequest("w_1", "", 10)], 0)).claims)
        assert len(self.claims) == 3
        await self._archive()

    async def _add_logs(self, run_ids: Sequence[str]) -> None:
        async def work(tx: Tx) -> None:
            await tx.insert(
                LOGS, [(run_id, 1, seq, "stdout", NOON, f"line {seq}") for run_id in run_ids for seq in (0, 1)]
            )

        await run_sql(self.store, work)

    async def _put_objects(self, tenant: str, own: dict[str, str]) -> None:
        for kind, name in (("payloads", f"{own['job']}-d.json"), ("results", f"reports/{own['run']}-1.json")):
            for day in (NOON, self.store.now()):
                key = large_values.key(kind, 7, day, name)
                await self.objects.put({key: f"value of {tenant}".encode()})

    async def _archive(self) -> None:
        """Archive the day twice: as an earlier version did, with all tenants in each part, and as this version does."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writing, "_by_tenant", lambda items, _: [(TENANT, list(items))])
            await archive_day(self.store, self.objects, DAY_OF_RUNS)
        [key] = await self.objects.list("manifests/")
        [content] = await self.objects.get([key])
        assert content is not None
        old = replace(archive_record.decode_manifest(content), tenant="")
        await self.objects.put({key: archive_record.encode(old)})
        await archive_day(self.store, self.objects, DAY_OF_RUNS)

    async def contents(self) -> dict[str, bytes]:
        """All objects, those of the archive uncompressed."""
        found: dict[str, bytes] = {}
        for top in ("payloads", "results", "logs", "executions", "manifests"):
            keys = await self.objects.list(f"{top}/")
            for key, content in zip(keys, await self.objects.get(keys), strict=True):
                assert content is not None
                found[key] = zlib.decompress(content, wbits=31) if key.endswith(".gz") else content
        return found

    def context(self, life: Life) -> OperationContext:
        store, objects = Deadly(self.store, life), Deadly(self.objects, life)
        large = LargeValueStore(ValuePlace(objects, store, 7, system.SystemClock()))  # type: ignore[arg-type]
        wakeups = LocalWakeups(lambda _: None)
        archive = Archive(objects)  # type: ignore[arg-type]
        return OperationContext(
            store,
            NoSleep(),
            system.rng(),
            wakeups,
            archive=archive,
            large_value_store=large,  # type: ignore[arg-type]
        )


class NoSleep(system.SystemClock):
    async def sleep(self, length: Micros) -> None:
        pass


@pytest.fixture
def objects(tmp_path: Path) -> Bucket:
    return open_objects(str(tmp_path / "objects"))


async def lead_of(store: Store, holder: str = "s_1") -> Lead:
    lead = await store.lead("housekeeping", holder, MINUTE)
    assert lead is not None
    return lead


async def delete(scene: Scene, lead: Lead) -> int:
    """Delete the tenant. The deletion is killed before and after each call with an effect, and continued: each time one
    call later, until it has come further. The worker reports its run when the third one has begun. Return how many
    were killed."""
    killed, life, seen = 0, 1, ""
    while True:
        try:
            await TenantDeleter(scene.context(Life(life))).run(lead)
        except Killed:
            killed += 1
            if killed == 3:
                await scene.store.settle([settlement(each) for each in scene.claims])
            now = repr((await scene.store.deletions(), await scene.objects.list("executions/")))
            life, seen = (1, now) if now != seen else (life + 1, seen)
            continue
        return killed


async def problems(store: Store, chain: str) -> list[str]:
    verifier = ChainVerifier(chain)
    for entry in await store.audit_entries(chain, 0, 10_000):
        verifier.add(entry)
    return [each.sentence for each in verifier.finish(await store.audit_head(chain))]


def of_tenant(found: Dump, of: Sequence[bytes]) -> dict[str, int]:
    return {table: count for table, rows in found.items() if (count := sum(has_mark(row, of) for row in rows))}


def of_others(found: Dump, of: Sequence[bytes]) -> dict[str, Counter[str]]:
    """The rows of the other tenants. The jobs and runs that are alive change beside the deletion."""
    return {
        table: Counter(repr(sorted(row.items())) for row in rows if not has_mark(row, of))
        for table, rows in found.items()
        if table not in {"leases", "meta", "stats_writers", "runs", "audit_heads", "usage_marks"}
    }


def lines(found: dict[str, bytes], of: Sequence[bytes]) -> Counter[bytes]:
    """The lines in the archive that are not of the deleted tenant."""
    parts = [content for key, content in found.items() if key.startswith("executions/")]
    return Counter(line for part in parts for line in part.splitlines() if not any(mark in line for mark in of))


async def test_the_tables_are_those_of_the_schema(store: Store) -> None:
    schema = await columns(store)
    known = {owned.name for family in FAMILIES for owned in (family.table, *family.children)} | {"profiles"}
    assert schema.keys() | {"departing"} == known | OF_ALL | MADE_BY_REQUESTS
    for family in FAMILIES:
        for owned in (family.table, *family.children):
            assert set(owned.key) == {name for name, (_, is_key) in schema[owned.name].items() if is_key}, owned
            assert owned.column in schema[owned.name]
        assert not family.children or family.table.key == ("id",)


async def test_a_deleted_tenant_leaves_only_the_receipt(store: Store, objects: Bucket) -> None:
    scene = Scene(store, objects)
    await scene.fill()
    of = marks(GONE, scene.owned[GONE])
    before, objects_before = await dump(store), await scene.contents()
    counted = of_tenant(before, of)
    missing = before.keys() - counted.keys() - OF_ALL - {"tenant_deletions"}
    assert missing == set(), "each table has something of the tenant"

    begun = await store.begin_deletion(GONE, ACTOR, "192.0.2.7")
    assert await store.begin_deletion(GONE, ACTOR, "192.0.2.8") == begun
    lead = await lead_of(store)
    assert await delete(scene, lead) > 50

    after, objects_after = await dump(store), await scene.contents()
    left = {table: [row for row in rows if has_mark(row, of)] for table, rows in after.items()}
    receipts = [row for row in left.pop("audit_log") if row["action"] == TENANT_DELETED]
    assert {row["chain"] for row in after["audit_log"] if has_mark(row, of)} == {SYSTEM_CHAIN}
    assert {table: rows for table, rows in left.items() if rows} == {}
    assert {
        key for key, content in objects_after.items() if any(mark in key.encode() + content for mark in of)
    } == set()

    [receipt] = receipts
    values = msgspec.json.decode(receipt["new_values"])
    assert (receipt["actor_name"], receipt["address"], receipt["resource_id"]) == ("root", "192.0.2.7", GONE)
    assert values["auditEntries"] == 3
    chain = [row for row in before["audit_log"] if row["chain"] == GONE]
    assert values["lastHash"] == max(chain, key=lambda row: row["seq"])["hash"]
    deleted = values["deleted"]
    assert deleted["archivedRuns"] == 60, "each run was archived twice"
    assert deleted["objects"] == 4
    assert deleted["audit_log"] == 3
    exact = counted.keys() - {"runs", "tenants", "audit_heads", "audit_log", "history", "attempts", "jobs", "workers"}
    assert {table: deleted[table] for table in exact} == {table: counted[table] for table in exact}
    assert deleted["history"] == counted["history"] + 1
    assert deleted["jobs"] == counted["jobs"]

    for chain_id in await store.audit_chains():
        assert await problems(store, chain_id) == []
    assert GONE not in await store.audit_chains()
    unchanged = of_others(before, of)
    for table, rows in of_others(after, of).items():
        if table not in {"history", "jobs", "attempts", "daily_sums", "job_versions", "workers"}:
            assert rows == unchanged[table] + (rows - unchanged[table] if table == "audit_log" else Counter()), table
    for row in before["history"]:
        assert has_mark(row, of) or row in after["history"]
    own_objects = {key: each for key, each in objects_before.items() if not any(m in key.encode() + each for m in of)}
    shared = {key for key, each in own_objects.items() if key.startswith("manifests/") and b'"tenant":""' in each}
    assert {key: own_objects[key] for key in own_objects.keys() - shared}.items() <= objects_after.items()
    assert lines(objects_before, of) == lines(objects_after, of), "every archived line of the others is there"
    archive = Archive(objects)
    for tenant in (TENANT, OTHER):
        page = await archive.list_runs(RunFilter(tenant=tenant), None, 1_000)
        assert len(page.items) == 30
        assert len(await archive.logs(tenant, page.items[3].id, None, 0, 10)) == 2
    assert (await archive.list_runs(RunFilter(tenant=GONE), None, 1_000)).items == []


async def test_nothing_new_comes_while_a_tenant_is_deleted_or_after(store: Store, objects: Bucket) -> None:
    scene = Scene(store, objects)
    await scene.fill()
    await store.begin_deletion(GONE, ACTOR, "")
    for is_over in (False, True):
        both = [one_shot(store.now(), tenant=tenant) for tenant in (GONE, OTHER)]
        refused, accepted = await store.submit(both)
        assert isinstance(refused, NoTenant)
        assert accepted.job_id == both[1].job.id  # type: ignore[union-attr]
        with pytest.raises(Conflict):
            await put_calendar(store, GONE, "late")
        with pytest.raises(Conflict):
            await store.create_tenant(Tenant(id=GONE, created_at=9, updated_at=9))
        if not is_over:
            await store.settle([settlement(each) for each in scene.claims])
            await TenantDeleter(scene.context(Life(10**9))).run(await lead_of(store))
    assert await store.tenant(GONE) is None
    assert await store.deletions() == []
    assert of_tenant(await dump(store), marks(GONE, scene.owned[GONE])).keys() == {"audit_log"}
    with pytest.raises(NotFound):
        await store.begin_deletion(GONE, ACTOR, "")


async def test_a_server_without_the_lease_deletes_nothing(store: Store, objects: Bucket) -> None:
    scene = Scene(store, objects)
    await scene.fill()
    await store.begin_deletion(GONE, ACTOR, "")
    former = replace(await lead_of(store), holder="s_2")
    before = await dump(store)
    for change in (
        store.delete_rows(former, GONE, 100),
        store.stop_jobs(former, GONE, 100),
        store.end_deletion(former, GONE),
        store.note_deletion(former, GONE, "rows"),
    ):
        with pytest.raises(Deposed):
            await change
    assert {**await dump(store), "meta": []} == {**before, "meta": []}


async def test_a_tenant_with_rows_is_not_forgotten(store: Store, objects: Bucket) -> None:
    scene = Scene(store, objects)
    await scene.fill()
    await store.begin_deletion(GONE, ACTOR, "")
    lead = await lead_of(store)
    assert not await store.end_deletion(lead, GONE)
    [found] = await store.deletions()
    assert (found.tenant, found.actor, found.phase) == (GONE, ACTOR, "runs")


def test_an_old_manifest_is_recognized() -> None:
    old = archive_record.encode({"format": 1, "day": "", "runs": 0, "logs": 0, "runParts": [], "logParts": []})
    assert archive_record.decode_manifest(old) == Manifest(1, "", 0, 0, [], [], "")
