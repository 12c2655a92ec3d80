"""Archive the finished runs of a day: write them from the store to object storage. The objects are parts, each with
many runs or many rows of output, and a manifest, which lists the parts.

A crash leaves complete objects without references, or all objects with the manifest that lists them. The name of an
object follows from its content, and no object is ever replaced by a different one. A second try therefore writes the
same objects, and two servers that archive the same day do no harm: at worst a run is in two parts, and readers return
it once. Runs of a day that ended after it was archived get a manifest of their own. Existing objects are never a reason
not to write: they may belong to another store with the same location.

Each tenant has parts and manifests of its own. The runs of a tenant that is being deleted are not archived. If that
begins while the day is archived, the archiver deletes what it wrote for the tenant: the deletion may have looked for
objects before they were written (see `erase`).
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from typing import Final, TypeVar

import structlog
from msgspec import Struct, structs

from timeball.domain.instant import Micros
from timeball.domain.job import large_values
from timeball.domain.job.large_values import REFERENCE
from timeball.domain.run import archive_record
from timeball.domain.run.archive_record import FORMAT, Finished, LogRecord, Manifest, Part
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.operation.storage.large_values import LargeValueStore, MissingObject
from timeball.ports.object_store import Objects
from timeball.ports.store.queries import ArchivedLine
from timeball.ports.store.store import Store

T = TypeVar("T")

RUNS_AT_ONCE: Final = 1_000
LINES_AT_ONCE: Final = 200
"""Number of rows of output that are read at once, each up to 64 KiB."""
LARGE_AT_ONCE: Final = 8
"""Maximum number of offloaded results and outputs that are loaded at once."""
MAX_RECORDS: Final = 20_000
MAX_BYTES: Final = 32 * 1024 * 1024
"""A part is complete when it has at least this many bytes before compression, or when it has `MAX_RECORDS` records."""
MAX_GROWING: Final = 32
"""Maximum number of parts that grow at the same time, one for each tenant. Together they have at most `MAX_BYTES`."""
GZIP: Final = 31
"""The `wbits` value with which zlib writes the gzip format, without a file name or a time, so that equal content gives
an equal object."""
_log = structlog.get_logger()


class Archived(Struct, frozen=True):
    runs: int
    logs: int
    """Number of rows of output."""


async def archive_day(
    store: Store,
    objects: Objects,
    day: date,
    since: Micros = 0,
    large_value_store: LargeValueStore | None = None,
) -> Archived:
    """Archive all runs of a day that ended at or after `since`. When this returns they are stored durably in the
    archive, with their values from the `large_value_store`, and may be deleted from the store."""
    range_ = _Range(*archive_record.id_range(day), since)
    tenants = _Tenants(store)
    run_parts = await _archive_runs(store, objects, day, range_, large_value_store, tenants)
    log_parts = await _archive_logs(store, objects, day, range_, large_value_store, tenants)
    archived = Archived(_records(run_parts.values()), _records(log_parts.values()))
    for tenant, parts in run_parts.items():
        logs = log_parts.get(tenant, [])
        manifest = Manifest(FORMAT, f"{day}", _records([parts]), _records([logs]), parts, logs, tenant)
        content = archive_record.encode(manifest)
        key = f"{archive_record.manifests_of(day, tenant)}{_digest(content)}.json"
        await objects.put({key: content})
        if not await tenants.stays(tenant):
            await objects.delete([*(part.key for part in [*parts, *logs]), key])
    return archived


class _Range(Struct, frozen=True):
    first: str
    until: str
    since: Micros


class _Tenants:
    """The tenants of the runs that are archived: whether they are to be archived."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, bool] = {}

    async def of_day(self, tenants: Iterable[str]) -> set[str]:
        """Return those tenants that were not being deleted when their first run of the day was read."""
        for tenant in tenants:
            if tenant not in self._known:
                self._known[tenant] = await self.stays(tenant)
        return {tenant for tenant, stays in self._known.items() if stays}

    async def stays(self, tenant: str) -> bool:
        """Return False if the tenant is being deleted, or was deleted."""
        if tenant == DEFAULT_TENANT:
            return True
        found = await self._store.tenant(tenant)
        return found is not None and found.state == "active"


async def _archive_runs(
    store: Store,
    objects: Objects,
    day: date,
    range_: _Range,
    large_value_store: LargeValueStore | None,
    tenants: _Tenants,
) -> dict[str, list[Part]]:
    first = range_.first
    parts = _Parts(objects, day, "runs")
    while runs := await store.finished_in(first, range_.until, range_.since, RUNS_AT_ONCE):
        stay = await tenants.of_day({each.run.tenant for each in runs})
        kept = [each for each in runs if each.run.tenant in stay]
        for some in _few_large(kept, lambda each: large_values.reference(each.run.result) is not None):
            whole = some if large_value_store is None else [await _whole(each, large_value_store) for each in some]
            for tenant, own in _by_tenant(whole, lambda each: each.run.tenant):
                lines = await asyncio.to_thread(_run_lines, own)
                await parts.add(tenant, lines, [each.run.id for each in own], own)
        first = f"{runs[-1].run.id}0"  # the next possible id
    return await parts.close()


async def _archive_logs(
    store: Store,
    objects: Objects,
    day: date,
    range_: _Range,
    large_value_store: LargeValueStore | None,
    tenants: _Tenants,
) -> dict[str, list[Part]]:
    after = (range_.first, 0, 0)
    parts = _Parts(objects, day, "logs")
    while found := await store.output_in(after, range_.until, range_.since, LINES_AT_ONCE):
        stay = await tenants.of_day({each.tenant for each in found})
        kept = [each for each in found if each.tenant in stay]
        for some in _few_large(kept, lambda each: each.line.stream == REFERENCE):
            whole = (
                some
                if large_value_store is None
                else [every for each in some for every in await _expanded(each, large_value_store)]
            )
            for tenant, own in _by_tenant(whole, lambda each: each.tenant):
                lines = await asyncio.to_thread(_log_lines, own)
                await parts.add(tenant, lines, [each.run_id for each in own])
        last = found[-1]
        after = (last.run_id, last.line.attempt, last.line.seq)
    return await parts.close()


def _by_tenant(items: Iterable[T], tenant_of: Callable[[T], str]) -> list[tuple[str, list[T]]]:
    """Return the items of each tenant, in order."""
    found: dict[str, list[T]] = {}
    for item in items:
        found.setdefault(tenant_of(item), []).append(item)
    return list(found.items())


def _few_large(items: Sequence[T], is_large: Callable[[T], bool]) -> Iterator[list[T]]:
    """Yield all items in order, in lists with at most 8 large ones."""
    some: list[T] = []
    found = 0
    for item in items:
        some.append(item)
        found += is_large(item)
        if found == LARGE_AT_ONCE:
            yield some
            some, found = [], 0
    if some:
        yield some


async def _whole(finished: Finished, large_value_store: LargeValueStore) -> Finished:
    """Return the run with its result. If the object of the result was deleted, the run is archived without a result."""
    try:
        return structs.replace(finished, run=await large_value_store.whole_run(finished.run))
    except MissingObject as error:
        _log.error("a run is archived without its result", run=finished.run.id, error=str(error))
        return structs.replace(finished, run=structs.replace(finished.run, result=None))


async def _expanded(each: ArchivedLine, large_value_store: LargeValueStore) -> list[ArchivedLine]:
    try:
        return [structs.replace(each, line=line) for line in await large_value_store.expanded([each.line], 0)]
    except MissingObject as error:
        _log.error("a run is archived without its output", run=each.run_id, error=str(error))
        return [structs.replace(each, line=structs.replace(each.line, stream="system", text="[this output is lost]\n"))]


class _Parts:
    """The parts of a day: for each tenant one that grows, and those that are written."""

    def __init__(self, objects: Objects, day: date, kind: str) -> None:
        self._objects = objects
        self._day = day
        self._kind = kind
        self._written: dict[str, list[Part]] = {}
        self._growing: dict[str, _Growing] = {}

    async def add(self, tenant: str, lines: bytes, run_ids: Sequence[str], runs: Iterable[Finished] = ()) -> None:
        growing = self._growing.setdefault(tenant, _Growing())
        await asyncio.to_thread(growing.add, lines, run_ids, runs)
        if growing.records >= MAX_RECORDS:
            await self._write(tenant)
        while self._has_many():
            await self._write(max(self._growing, key=lambda each: (self._growing[each].size, each)))

    async def close(self) -> dict[str, list[Part]]:
        """Write the parts that grow. Return all parts of each tenant, in the order of their runs."""
        for tenant in list(self._growing):
            await self._write(tenant)
        return self._written

    def _has_many(self) -> bool:
        return len(self._growing) > MAX_GROWING or sum(each.size for each in self._growing.values()) >= MAX_BYTES

    async def _write(self, tenant: str) -> None:
        part, content = self._growing[tenant].finish(self._day, self._kind, tenant)
        await self._objects.put({part.key: content})
        self._written.setdefault(tenant, []).append(part)
        del self._growing[tenant]


def growing_part(lines: Sequence[bytes], day: str, kind: str) -> tuple[Part, bytes]:
    """Return a part with these lines, which are records of several tenants, and its content."""
    growing = _Growing()
    if kind == "runs":
        found = [archive_record.finished(archive_record.decode(line)) for line in lines]
        growing.add(b"".join(b"%b\n" % line for line in lines), [each.run.id for each in found], found)
    else:
        logs = [archive_record.decode_log(line).run_id for line in lines]
        growing.add(b"".join(b"%b\n" % line for line in lines), logs, ())
    return growing.finish(date.fromisoformat(day), kind, DEFAULT_TENANT)


class _Growing:
    """A part that is not complete yet. Only its compressed form is kept in memory."""

    def __init__(self) -> None:
        self.records = 0
        self.size = 0
        self._first_id = self._last_id = ""
        self._fire_times: list[Micros] = []
        self._statuses: Counter[str] = Counter()
        self._digest = hashlib.sha256()
        self._compressor = zlib.compressobj(wbits=GZIP)
        self._compressed: list[bytes] = []

    def add(self, lines: bytes, run_ids: Sequence[str], runs: Iterable[Finished]) -> None:
        self._first_id = self._first_id or run_ids[0]
        self._last_id = run_ids[-1]
        self.records += len(run_ids)
        self.size += len(lines)
        instants = [at for each in runs for at in (each.run.fire_time, each.run.fire_until)]
        if instants:
            self._fire_times = [min(*instants, *self._fire_times), max(*instants, *self._fire_times)]
        self._statuses.update(each.run.status.value for each in runs)
        self._digest.update(lines)
        self._compressed.append(self._compressor.compress(lines))

    def finish(self, day: date, kind: str, tenant: str) -> tuple[Part, bytes]:
        fires = [archive_record.render(at) for at in self._fire_times] or ["", ""]
        part = Part(
            key=archive_record.part_key(day, kind, self._first_id, self._digest.hexdigest()[:16], tenant),
            records=self.records,
            first_id=self._first_id,
            last_id=self._last_id,
            first_fire_time=fires[0],
            last_fire_time=fires[1],
            statuses=dict(sorted(self._statuses.items())),
        )
        return part, b"".join([*self._compressed, self._compressor.flush()])


def _run_lines(runs: Sequence[Finished]) -> bytes:
    return _lines(archive_record.record(each) for each in runs)


def _log_lines(found: Sequence[ArchivedLine]) -> bytes:
    return _lines(
        LogRecord(
            each.run_id,
            each.line.attempt,
            each.line.seq,
            each.line.stream,
            archive_record.render(each.line.at),
            each.line.text,
        )
        for each in found
    )


def _lines(records: Iterable[Struct]) -> bytes:
    return b"".join(line for each in records for line in (archive_record.encode(each), b"\n"))


def _records(parts: Iterable[Iterable[Part]]) -> int:
    return sum(part.records for some in parts for part in some)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
