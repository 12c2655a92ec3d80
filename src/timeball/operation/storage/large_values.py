"""Large parameters, results and output as objects beside the store.

An object is stored durably before a row refers to it. A submit with large parameters waits for that, and is refused
while the object storage does not answer. The end of a run does not depend on the object storage: if its result cannot
be offloaded, the result is kept in the store like a small one, and so is output until it is offloaded. So only requests
with large values wait for the object storage, and no value is lost if it fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog
from msgspec import UNSET, Raw, structs

from timeball.domain.errors import Unavailable
from timeball.domain.instant import SECOND, Micros
from timeball.domain.job import large_values
from timeball.domain.job.job import JobSpec, OffloadedSpec, fill, offloaded
from timeball.domain.job.large_values import LARGE, REFERENCE
from timeball.domain.run.lifecycle import Outcome, Succeeded
from timeball.domain.run.run import Run
from timeball.ports.clock import Clock
from timeball.ports.object_store import Objects
from timeball.ports.store.jobs import JobStatus
from timeball.ports.store.queries import LogLine, ReadStore
from timeball.ports.store.store import Store

OBJECT_TIMEOUT: Final = 10 * SECOND
"""Maximum time that a request waits for an object."""
SHORT: Final = 3 * SECOND
"""Maximum time for an object in operations that other requests wait for, too."""
OBJECT_RETRY_DELAY: Final = 10 * SECOND
"""Time after a failure in which operations that must not delay others skip the object storage."""
AT_ONCE: Final = 4
"""Maximum number of outputs that are offloaded at the same time."""
RETRY_AFTER: Final = 5.0
"""Seconds after which a client may try again."""
PAGE: Final = 1_000
_encode = msgspec.json.Encoder().encode
_decode_parameters = msgspec.json.Decoder(dict[str, object]).decode
_decode_line = msgspec.json.Decoder(LogLine).decode
_log = structlog.get_logger()


class MissingObject(Unavailable):
    """Raised when an object does not exist to which a row refers."""


@dataclass(frozen=True, slots=True)
class ValuePlace:
    """The location of the large values of a store."""

    objects: Objects
    store: Store
    number: int
    """The number from `Store.number`, which separates the objects of this store from those of others."""
    clock: Clock


class LargeValueStore:
    """Reads and writes large values. If `place` is None, nothing is offloaded, and existing objects cannot be read."""

    def __init__(self, place: ValuePlace | None = None) -> None:
        self._place = place
        self._asks_again_at: Micros = 0
        self._room = asyncio.Semaphore(AT_ONCE)

    @property
    def takes(self) -> bool:
        return self._place is not None

    # --- parameters ------------------------------------------------------------------------------------------------

    async def offload(self, specs: Mapping[str, JobSpec]) -> dict[str, JobSpec]:
        """Offload large parameters. Return the specs with references in their place. The keys of the mapping are ids of
        jobs or of edited runs."""
        if self._place is None:
            return dict(specs)
        kept, objects = dict(specs), dict[str, bytes]()
        for owner, spec in specs.items():
            content = _encode(spec.parameters)
            if len(content) > LARGE:
                key = self._key("payloads", large_values.parameters_name(owner, _digest(content), len(content)))
                objects[key] = content
                kept[owner] = offloaded(spec, key)
        if objects:
            await self._put(objects, OBJECT_TIMEOUT)
        return kept

    async def whole(self, spec: JobSpec) -> JobSpec:
        """Return the spec with its parameters."""
        if not isinstance(spec, OffloadedSpec):
            return spec
        return spec.with_parameters(_decode_parameters(await self._get(spec.parameters_at, OBJECT_TIMEOUT)))

    async def whole_job(self, found: JobStatus) -> JobStatus:
        if not isinstance(found.job.spec, OffloadedSpec):
            return found
        return structs.replace(found, job=found.job.with_(spec=await self.whole(found.job.spec)))

    async def whole_json(self, spec: bytes, key: str) -> bytes | None:
        """Return an encoded spec with its parameters; None if they cannot be read now. Waits at most 3 seconds."""
        if self._is_paused:
            return None
        try:
            return fill(spec, await self._get(key, SHORT))
        except Unavailable as error:
            _log.warning("a run cannot start, since its parameters cannot be read", error=str(error))
            return None

    # --- results ---------------------------------------------------------------------------------------------------

    async def offload_result(self, run_id: str, token: int, outcome: Outcome, location: str | None = None) -> Outcome:
        """Return the outcome with a reference if its result is large or has a location; unchanged if the object cannot
        be written now."""
        if not isinstance(outcome, Succeeded) or not isinstance(outcome.result, Raw):
            return outcome
        if self._place is None or self._is_paused or (location is None and not is_large(outcome)):
            return outcome
        folder = "" if location is None else f"{location}/"
        key = self._key("results", f"{folder}{run_id}-{token}.json")
        try:
            await self._put({key: bytes(outcome.result)}, SHORT)
        except Unavailable as error:
            _log.warning("a large result stays in the store", run=run_id, error=str(error))
            return outcome
        return Succeeded(Raw(f"{REFERENCE}{key}".encode()))

    async def content(self, key: str) -> bytes | None:
        """Return the content of an object; None if it does not exist. Waits at most 3 seconds."""
        try:
            return await self._get(key, SHORT)
        except MissingObject:
            return None

    async def whole_run(self, run: Run) -> Run:
        """Return the run with its result."""
        key = large_values.reference(run.result)
        if key is None:
            return run
        return structs.replace(run, result=Raw(await self._get(key, OBJECT_TIMEOUT)))

    # --- output ----------------------------------------------------------------------------------------------------

    async def offload_output(self, run_id: str, attempt: int) -> None:
        """Offload the output of an attempt that ended, if it is large."""
        if self._place is None:
            return
        try:
            async with self._room:
                await self._offload_output(self._place.store, run_id, attempt)
        except Unavailable as error:
            _log.warning("large output stays in the store", run=run_id, attempt=attempt, error=str(error))

    async def _offload_output(self, store: Store, run_id: str, attempt: int) -> None:
        lines: list[LogLine] = []
        after = attempt * 1_000_000 - 1
        while found := await store.logs(run_id, attempt, after, PAGE):
            lines += found
            after = attempt * 1_000_000 + found[-1].seq
        if sum(len(line.text) for line in lines) <= LARGE or any(line.stream == REFERENCE for line in lines):
            return
        key = self._key("logs", f"{run_id}-{attempt}.ndjson.gz")
        content = await asyncio.to_thread(_packed, lines)
        await self._put({key: content}, OBJECT_TIMEOUT)
        await store.replace_output(run_id, attempt, [line.seq for line in lines], key)

    async def logs(self, store: ReadStore, run_id: str, attempt: int | None, after: int, limit: int) -> list[LogLine]:
        """Return output in order, as `ReadStore.logs` does, from the store and from objects."""
        found = await store.logs(run_id, attempt, after, limit)
        if not any(line.stream == REFERENCE for line in found):
            return found
        return (await self.expanded(found, after))[:limit]

    async def expanded(self, found: Sequence[LogLine], after: int) -> list[LogLine]:
        """Replace references in lines by the lines they refer to, after a position."""
        lines: list[LogLine] = []
        for line in found:
            if line.stream != REFERENCE:
                lines.append(line)
                continue
            content = await self._get(line.text, OBJECT_TIMEOUT)
            moved = await asyncio.to_thread(_unpacked, content)
            lines += [each for each in moved if (each.attempt, each.seq) > divmod(after, 1_000_000)]
        return lines

    # --- objects without references --------------------------------------------------------------------------------

    async def sweep(self, now: Micros) -> int:
        """Delete the objects that no row refers to and that are too old for a new reference. Return their number."""
        if self._place is None:
            return 0
        return sum([await _sweep(self._place, kind, now) for kind in large_values.KINDS])

    # --- objects of a tenant -----------------------------------------------------------------------------------------

    async def folders(self) -> list[str]:
        """Return the folders of days that have objects, in order."""
        if self._place is None:
            return []
        prefixes = [large_values.prefix(kind, self._place.number) for kind in large_values.KINDS]
        return sorted([day for each in prefixes for day in await _days(self._place.objects, each)])

    async def of_tenant(self, store: Store, folder: str, tenant: str) -> tuple[Objects, list[str]]:
        """Return the object storage, and the keys of the objects in a folder that belong to jobs and runs of a
        tenant."""
        assert self._place is not None
        keys = await self._place.objects.list(folder)
        owned: set[str] = set()
        for some in (keys[at : at + PAGE] for at in range(0, len(keys), PAGE)):
            owned |= await store.owned_by(tenant, [large_values.owner(key) for key in some])
        return self._place.objects, [key for key in keys if large_values.owner(key) in owned]

    # --- internals -------------------------------------------------------------------------------------------------

    @property
    def _is_paused(self) -> bool:
        return self._place is not None and self._place.clock.monotonic() < self._asks_again_at

    def _pause(self) -> None:
        if self._place is not None:
            self._asks_again_at = self._place.clock.monotonic() + OBJECT_RETRY_DELAY

    def _key(self, kind: str, name: str) -> str:
        assert self._place is not None
        return large_values.key(kind, self._place.number, self._place.store.now(), name)

    async def _put(self, objects: Mapping[str, bytes], timeout: Micros) -> None:
        assert self._place is not None
        with self._as_unavailable("large values cannot be kept"):
            async with asyncio.timeout(timeout / SECOND):
                await self._place.objects.put(objects)

    async def _get(self, key: str, timeout: Micros) -> bytes:
        if self._place is None:
            raise Unavailable(f"{key} is in object storage, and this server has no --objects setting")
        with self._as_unavailable(f"{key} cannot be read"):
            async with asyncio.timeout(timeout / SECOND):
                [content] = await self._place.objects.get([key])
        if content is None:
            raise MissingObject(f"{key} is no longer in the object storage")
        return content

    @contextlib.contextmanager
    def _as_unavailable(self, what: str) -> Iterator[None]:
        """Raise errors of the object storage as `Unavailable` with the text `what`. For 10 seconds after
        one, operations that must not delay others skip the object storage."""
        try:
            yield
        except (TimeoutError, Unavailable) as error:
            self._pause()
            why = str(error) or "the object storage does not answer in time"
            raise Unavailable(f"{what}: {why}", retry_after=RETRY_AFTER) from error


async def _sweep(place: ValuePlace, kind: str, now: Micros) -> int:
    swept = 0
    for day in await _days(place.objects, large_values.prefix(kind, place.number)):
        written = large_values.written_on(day)
        if written is None or written + large_values.SAFE > now:
            continue
        keys = await place.objects.list(day)
        for some in (keys[at : at + PAGE] for at in range(0, len(keys), PAGE)):
            orphans = set(some) - await place.store.referred_to(kind, some)
            await place.objects.delete(sorted(orphans))
            swept += len(orphans)
    return swept


async def _days(objects: Objects, prefix: str) -> list[str]:
    """Return the folders of days below a prefix."""
    folders = [prefix]
    for _ in ("year", "month", "day"):
        folders = [inner for each in folders for inner in await objects.folders(each)]
    return folders


def is_large(outcome: Outcome) -> bool:
    """True if the outcome has a large result, which is offloaded if possible."""
    return result_size(outcome) > LARGE


def result_size(outcome: Outcome) -> int:
    """Return the number of bytes of the result of an outcome."""
    return len(outcome.result) if type(outcome) is Succeeded and outcome.result is not UNSET else 0


def _packed(lines: Sequence[LogLine]) -> bytes:
    compressor = zlib.compressobj(wbits=31)
    packed = [compressor.compress(_encode(line) + b"\n") for line in lines]
    return b"".join([*packed, compressor.flush()])


def _unpacked(content: bytes) -> list[LogLine]:
    return [_decode_line(line) for line in zlib.decompress(content, wbits=31).splitlines()]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
