"""Search runs in the archive.

A part is an object with many runs; a manifest lists parts of a day, and shows which of them may contain matching runs.
A request reads parts, newest first, until a page is full or the limit of one request is reached; the next page
continues there. Of a part, only lines that contain the rarest word of the filter are decoded. This is done in threads,
for 2 requests at a time.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from datetime import date
from typing import Final, TypeVar

import msgspec
import structlog
from msgspec import Struct, structs

from timeball.domain import ids, instant
from timeball.domain.errors import Invalid, Unavailable
from timeball.domain.instant import HOUR
from timeball.domain.run import archive_record
from timeball.domain.run.archive_record import Finished, Head, Manifest, Part, Record
from timeball.domain.run.error_fingerprint import NO_FINGERPRINT
from timeball.domain.run.run import Run
from timeball.domain.run.status import GAVE_UP
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.operation.storage.archive import GZIP
from timeball.ports.object_store import Objects
from timeball.ports.store.paging import Page
from timeball.ports.store.queries import LogLine, RunFilter

T = TypeVar("T")

AT_ONCE: Final = 2
"""Maximum number of requests that are served at the same time, so that the server has capacity for other work."""
AHEAD: Final = 4
"""Maximum number of parts that are loaded at the same time. A request begins with 1 part, and loads more as it
continues. Manifests are loaded for this many days at a time."""
MAX_PARTS: Final = 60
"""Maximum number of parts that are read for one page: more than a million runs."""
MAX_REMEMBERED: Final = 20_000
"""Maximum number of parts whose descriptions are cached. Manifests never change."""
SLICE: Final = 64 * 1024
"""Number of compressed bytes that are decompressed at once."""
PLANNED_AHEAD: Final = HOUR
"""Maximum time, rounded up, by which a run is created before its fire time."""
_log = structlog.get_logger()
_CURSOR = re.compile(r"r_[0-9a-f]{28}~?", re.ASCII)
_AFTER_ALL: Final = "s"
"""A string that sorts after all run ids."""


class Archive:
    """Reads the archive."""

    def __init__(self, objects: Objects) -> None:
        self.objects = self._objects = objects
        self._room = asyncio.Semaphore(AT_ONCE)
        self._manifests: dict[str, Manifest] = {}

    async def list_runs(self, where: RunFilter, cursor: str | None, limit: int) -> Page[Run]:
        """Return a page of runs, newest first by id, which is the order of their creation. A page may be short or empty
        and still have a next one: then the limit of one request was reached."""
        meant = _Meant.by(where, _checked(cursor), limit)
        found: dict[str, Record] = {}
        looked_at = 0
        async for day, parts in self._days(meant):
            while parts:
                edge = _behind(parts[0].last_id)
                is_enough = looked_at >= MAX_PARTS and edge < meant.before
                if is_enough or _behind_all_others(found, edge) >= limit:
                    return await asyncio.to_thread(_page, found, limit, edge)
                some, parts = _split(parts, min(max(looked_at, 1), AHEAD))
                looked_at += len(some)
                for records in await self._read(some, meant.records):
                    found |= records
            if len(found) >= limit:
                return await asyncio.to_thread(_page, found, limit, archive_record.id_range(day)[0])
        return await asyncio.to_thread(_page, found, limit, "")

    async def run(self, tenant: str, run_id: str) -> Finished | None:
        """Return the run; None if it is not in the archive."""
        word = _beginning(run_id)
        meant = _Meant(where=RunFilter(tenant=tenant), word=word, before=_behind(run_id), limit=1, with_results=True)
        parts = [part for each in await self._of_day(archive_record.day_of(run_id), tenant) for part in each.run_parts]
        for found in await self._read(_holding(parts, run_id), meant.records):
            if run_id in found:
                return archive_record.finished(found[run_id])
        return None

    async def logs(self, tenant: str, run_id: str, attempt: int | None, after: int, limit: int) -> list[LogLine]:
        """Return output of a run of the tenant in order, as the store does."""

        def lines(content: bytes) -> dict[tuple[int, int], LogLine]:
            found = (archive_record.decode_log(line) for line in _lines(content, _beginning(run_id)))
            return {
                (each.attempt, each.seq): LogLine(
                    each.attempt, each.seq, each.stream, instant.parse(each.at), each.text
                )
                for each in found
                if (each.attempt, each.seq) > divmod(after, 1_000_000) and attempt in (None, each.attempt)
            }

        parts = [part for each in await self._of_day(archive_record.day_of(run_id), tenant) for part in each.log_parts]
        pieces = {
            place: line for part in await self._read(_holding(parts, run_id), lines) for place, line in part.items()
        }
        return [pieces[place] for place in sorted(pieces)[:limit]]

    async def _days(self, meant: _Meant) -> AsyncIterator[tuple[date, list[Part]]]:
        """Yield the days, newest first, each with the parts that may contain matching runs, newest first."""
        keys: dict[date, list[str]] = {}
        tenant = meant.where.tenant
        for key in await self._objects.list(archive_record.MANIFESTS):
            if (day := archive_record.day_of_manifest(key, tenant)) is not None and meant.may_be_of(day):
                keys.setdefault(day, []).append(key)
        days = sorted(keys, reverse=True)
        for some in (days[at : at + AHEAD] for at in range(0, len(days), AHEAD)):
            await self._load([key for day in some for key in keys[day]])
            manifests = {day: self._known(keys[day], tenant) for day in some}
            self._forget()
            for day in some:
                parts = [part for each in manifests[day] for part in each.run_parts if meant.may_be_in(part)]
                yield day, sorted(parts, key=lambda part: part.last_id, reverse=True)

    async def _of_day(self, day: date, tenant: str) -> list[Manifest]:
        found = await self._objects.list(archive_record.manifests_of(day, DEFAULT_TENANT))
        keys = [key for key in found if archive_record.day_of_manifest(key, tenant) == day]
        await self._load(keys)
        return self._known(keys, tenant)

    def _known(self, keys: Sequence[str], tenant: str) -> list[Manifest]:
        """Return the manifests that were loaded, without those of other tenants."""
        found = [self._manifests[key] for key in keys if key in self._manifests]
        return [each for each in found if each.tenant in ("", tenant)]

    async def _load(self, keys: Sequence[str]) -> None:
        new = [key for key in keys if key not in self._manifests]
        for key, content in _there(new, await self._objects.get(new)):
            self._manifests[key] = archive_record.decode_manifest(content)

    def _forget(self) -> None:
        """Remove the manifests that were read first from the cache, if it is too large."""
        parts = sum(len(each.run_parts) for each in self._manifests.values())
        while parts > MAX_REMEMBERED:
            parts -= len(self._manifests.pop(next(iter(self._manifests))).run_parts)

    async def _read(self, parts: Sequence[Part], look: Callable[[bytes], T]) -> list[T]:
        if not parts:
            return []
        keys = [part.key for part in parts]
        async with self._room:
            found = _there(keys, await self._objects.get(keys))
            return await asyncio.to_thread(_look_at_each, found, look)


class _Meant(Struct, frozen=True, kw_only=True):
    """A run filter, converted for the comparison with archive records."""

    where: RunFilter
    word: bytes
    """The rarest word that every matching line contains; empty if there is none."""
    before: str
    """Only runs with ids before this one match."""
    limit: int
    with_results: bool = False
    """True if the records keep the results of their runs. Lists omit them, because results may be large."""
    fire_from: str = ""
    fire_until: str = ""

    @classmethod
    def by(cls, where: RunFilter, before: str, limit: int) -> _Meant:
        return cls(
            where=where,
            word=_rarest_word(where),
            before=before,
            limit=limit,
            fire_from="" if where.fire_from is None else _comparable(instant.render(where.fire_from)),
            fire_until="" if where.fire_until is None else _comparable(instant.render(where.fire_until)),
        )

    def may_be_of(self, day: date) -> bool:
        """True if the archive of this day may have matching runs. The archive keeps a run under the day on which it was
        created: never before the creation of its job, and at most `PLANNED_AHEAD` before its fire time."""
        first, until = archive_record.id_range(day)
        job_id, fire_from = self.where.job_id, self.where.fire_from
        if job_id is not None and (not ids.is_id("j", job_id) or job_id[2:14] > until[2:14]):
            return False
        return first < self.before and (fire_from is None or fire_from - PLANNED_AHEAD < ids.made_at(until))

    def may_be_in(self, part: Part) -> bool:
        if part.first_id >= self.before:
            return False
        if self.where.status and self.where.status.isdisjoint(part.statuses):
            return False
        return self._fires_in(part.first_fire_time, part.last_fire_time)

    def records(self, content: bytes) -> dict[str, Record]:
        """Return up to `limit` matching records of a part, the last ones, by run id."""
        found: dict[str, Record] = {}
        for line in _lines(content, self.word):
            head = archive_record.decode_head(line)
            if head.run_id < self.before and self._is_meant(head):
                whole = archive_record.decode(line)
                found[head.run_id] = (
                    whole if self.with_results else structs.replace(whole, result=archive_record.NOTHING)
                )
                if len(found) == self.limit:
                    break
        return found

    def _is_meant(self, head: Head) -> bool:
        where = self.where
        return (
            head.tenant == where.tenant
            and where.job_id in (None, head.job_id)
            and (not where.status or head.status in where.status)
            and (not where.origin or head.origin in where.origin)
            and where.user_id in (None, head.user_id)
            and where.task_id in (None, head.task_id)
            and where.fingerprint in (None, _fingerprint(head))
            and (where.tag is None or where.tag in head.tags)
            and self._fires_in(head.fire_time, head.fire_until)
        )

    def _fires_in(self, first: str, last: str) -> bool:
        """True if any of these fires is in the time of the filter."""
        if self.fire_from and _comparable(last) < self.fire_from:
            return False
        return not self.fire_until or _comparable(first) < self.fire_until


def _fingerprint(head: Head) -> str | None:
    return NO_FINGERPRINT if head.fingerprint is None and head.status in GAVE_UP else head.fingerprint


def _rarest_word(where: RunFilter) -> bytes:
    words: list[tuple[str, str | None]] = [
        ("jobId", where.job_id),
        ("fingerprint", None if where.fingerprint == NO_FINGERPRINT else where.fingerprint),
        ("userId", where.user_id),
        ("taskId", where.task_id),
        ("", where.tag),
        ("status", next(iter(where.status)).value if len(where.status) == 1 else None),
        ("origin", next(iter(where.origin)).value if len(where.origin) == 1 else None),
    ]
    for name, value in words:
        if value is not None:
            return (archive_record.encode(name) + b":" if name else b"") + archive_record.encode(value)
    return b""


def _beginning(run_id: str) -> bytes:
    """Return the first bytes of every record of a run."""
    return b'{"runId":' + archive_record.encode(run_id)


def _comparable(time: str) -> str:
    """Return a time as text that sorts by time for any precision: without the Z, because Z sorts after digits and the
    decimal point."""
    return time.removesuffix("Z")


def _checked(cursor: str | None) -> str:
    if cursor is None:
        return _AFTER_ALL
    if not _CURSOR.fullmatch(cursor):
        raise Invalid(f"{cursor[:64]!r} is not a cursor of the archive; use the one of the page before")
    return cursor


def _behind(run_id: str) -> str:
    """Return a string that sorts directly after this id."""
    return f"{run_id}~"


def _behind_all_others(found: Iterable[str], edge: str) -> int:
    """Return the number of found runs with ids from `edge` on: they are newer than all runs in parts not read yet."""
    return sum(run_id >= edge for run_id in found)


def _page(found: dict[str, Record], limit: int, edge: str) -> Page[Run]:
    """Return the next page. `edge` is after all run ids in parts not read yet, and empty if all parts were read."""
    settled = sorted((run_id for run_id in found if run_id >= edge), reverse=True)
    items = [archive_record.finished(found[run_id]).run for run_id in settled[:limit]]
    if len(settled) > limit or (edge and len(settled) == limit):
        return Page(items, settled[limit - 1])
    return Page(items, edge or None)


def _holding(parts: Iterable[Part], run_id: str) -> list[Part]:
    return [part for part in parts if part.first_id <= run_id <= part.last_id]


def _split(parts: list[Part], count: int) -> tuple[list[Part], list[Part]]:
    return parts[:count], parts[count:]


def _there(keys: Sequence[str], contents: Sequence[bytes | None]) -> list[tuple[str, bytes]]:
    """Return the objects that exist, and log how many are missing: the retention rules of the object storage may have
    deleted them."""
    found = [(key, content) for key, content in zip(keys, contents, strict=True) if content is not None]
    if len(found) < len(keys):
        gone = sorted(set(keys) - {key for key, _ in found})
        _log.warning("objects of the archive are missing", first=gone[0], count=len(gone))
    return found


def _look_at_each(contents: Sequence[tuple[str, bytes]], look: Callable[[bytes], T]) -> list[T]:
    found: list[T] = []
    for key, content in contents:
        try:
            found.append(look(content))
        except (zlib.error, msgspec.MsgspecError) as error:
            raise Unavailable(f"the archive's object {key} cannot be read: {error}") from None
    return found


def lines_of(content: bytes) -> list[bytes]:
    """Return all lines of a part, in order."""
    return [line for block in _blocks(content) for line in block.splitlines()]


def _lines(content: bytes, word: bytes) -> Iterator[bytes]:
    """Yield the lines of a part that contain a word, last one first."""
    for block in reversed(list(_blocks(content))):
        yield from reversed(list(_with(block, word)) if word else block.splitlines())


def _with(block: bytes, word: bytes) -> Iterator[bytes]:
    at = block.find(word)
    while at >= 0:
        end = block.find(b"\n", at)
        yield block[block.rfind(b"\n", 0, at) + 1 : end]
        at = block.find(word, end)


def _blocks(content: bytes) -> Iterator[bytes]:
    """Decompress a part. Yield its content in blocks of whole lines."""
    unpacker = zlib.decompressobj(wbits=GZIP)
    rest = b""
    for at in range(0, len(content), SLICE):
        rest += unpacker.decompress(content[at : at + SLICE])
        end = rest.rfind(b"\n") + 1
        if end:
            yield rest[:end]
            rest = rest[end:]
    if not unpacker.eof:
        raise zlib.error("it ends too early")
