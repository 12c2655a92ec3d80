"""Archive the finished runs of a day: write them from the store to object storage. The objects are parts, each with
many runs or many rows of output, and a manifest, which lists the parts.

A crash leaves complete objects without references, or all objects with the manifest that lists them. The name of an
object follows from its content, and no object is ever replaced by a different one. A second try therefore writes the
same objects, and two servers that archive the same day do no harm: at worst a run is in two parts, and readers return
it once. Runs of a day that ended after it was archived get a manifest of their own. Existing objects are never a reason
not to write: they may belong to another store with the same location.
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
from timeball.operation.storage.large_values import LargeValueStore, MissingObject
from timeball.ports.object_store import Objects
from timeball.ports.store.queries import ArchiveStore, LogLine

T = TypeVar("T")

RUNS_AT_ONCE: Final = 1_000
LINES_AT_ONCE: Final = 200
"""Number of rows of output that are read at once, each up to 64 KiB."""
LARGE_AT_ONCE: Final = 8
"""Maximum number of offloaded results and outputs that are loaded at once."""
MAX_RECORDS: Final = 20_000
MAX_BYTES: Final = 32 * 1024 * 1024
"""A part is complete when it reaches one of these two limits."""
GZIP: Final = 31
"""The `wbits` value with which zlib writes the gzip format, without a file name or a time, so that equal content gives
an equal object."""
_log = structlog.get_logger()


class Archived(Struct, frozen=True):
    runs: int
    logs: int
    """Number of rows of output."""


async def archive_day(
    store: ArchiveStore,
    objects: Objects,
    day: date,
    since: Micros = 0,
    large_value_store: LargeValueStore | None = None,
) -> Archived:
    """Archive all runs of a day that ended at or after `since`. When this returns they are stored durably in the
    archive, with their values from the `large_value_store`, and may be deleted from the store."""
    range_ = _Range(*archive_record.id_range(day), since)
    run_parts = await _archive_runs(store, objects, day, range_, large_value_store)
    log_parts = await _archive_logs(store, objects, day, range_, large_value_store)
    archived = Archived(_records(run_parts), _records(log_parts))
    if archived.runs:
        content = archive_record.encode(Manifest(FORMAT, f"{day}", archived.runs, archived.logs, run_parts, log_parts))
        await objects.put({f"{archive_record.manifests_of(day)}{_digest(content)}.json": content})
    return archived


class _Range(Struct, frozen=True):
    first: str
    until: str
    since: Micros


async def _archive_runs(
    store: ArchiveStore, objects: Objects, day: date, range_: _Range, large_value_store: LargeValueStore | None
) -> list[Part]:
    first = range_.first
    parts = _Parts(objects, day, "runs")
    while runs := await store.finished_in(first, range_.until, range_.since, RUNS_AT_ONCE):
        for some in _few_large(runs, lambda each: large_values.reference(each.run.result) is not None):
            whole = some if large_value_store is None else [await _whole(each, large_value_store) for each in some]
            lines = await asyncio.to_thread(_run_lines, whole)
            await parts.add(lines, [each.run.id for each in whole], whole)
        first = f"{runs[-1].run.id}0"  # the next possible id
    return await parts.close()


async def _archive_logs(
    store: ArchiveStore, objects: Objects, day: date, range_: _Range, large_value_store: LargeValueStore | None
) -> list[Part]:
    after = (range_.first, 0, 0)
    parts = _Parts(objects, day, "logs")
    while found := await store.output_in(after, range_.until, range_.since, LINES_AT_ONCE):
        for some in _few_large(found, lambda each: each[1].stream == REFERENCE):
            whole = (
                some
                if large_value_store is None
                else [every for each in some for every in await _expanded(*each, large_value_store)]
            )
            lines = await asyncio.to_thread(_log_lines, whole)
            await parts.add(lines, [run_id for run_id, _ in whole])
        run_id, line = found[-1]
        after = (run_id, line.attempt, line.seq)
    return await parts.close()


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


async def _expanded(run_id: str, line: LogLine, large_value_store: LargeValueStore) -> list[tuple[str, LogLine]]:
    try:
        return [(run_id, each) for each in await large_value_store.expanded([line], 0)]
    except MissingObject as error:
        _log.error("a run is archived without its output", run=run_id, error=str(error))
        return [(run_id, structs.replace(line, stream="system", text="[this output is lost]\n"))]


class _Parts:
    """The parts of a day: one that grows, and those that are written."""

    def __init__(self, objects: Objects, day: date, kind: str) -> None:
        self._objects = objects
        self._day = day
        self._kind = kind
        self._written: list[Part] = []
        self._growing = _Growing()

    async def add(self, lines: bytes, run_ids: Sequence[str], runs: Iterable[Finished] = ()) -> None:
        await asyncio.to_thread(self._growing.add, lines, run_ids, runs)
        if self._growing.records >= MAX_RECORDS or self._growing.size >= MAX_BYTES:
            await self._write()

    async def close(self) -> list[Part]:
        if self._growing.records:
            await self._write()
        return self._written

    async def _write(self) -> None:
        part, content = self._growing.finish(self._day, self._kind)
        await self._objects.put({part.key: content})
        self._written.append(part)
        self._growing = _Growing()


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

    def finish(self, day: date, kind: str) -> tuple[Part, bytes]:
        fires = [archive_record.render(at) for at in self._fire_times] or ["", ""]
        part = Part(
            key=archive_record.part_key(day, kind, self._first_id, self._digest.hexdigest()[:16]),
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


def _log_lines(found: Sequence[tuple[str, LogLine]]) -> bytes:
    return _lines(
        LogRecord(run_id, line.attempt, line.seq, line.stream, archive_record.render(line.at), line.text)
        for run_id, line in found
    )


def _lines(records: Iterable[Struct]) -> bytes:
    return b"".join(line for each in records for line in (archive_record.encode(each), b"\n"))


def _records(parts: Iterable[Part]) -> int:
    return sum(part.records for part in parts)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
