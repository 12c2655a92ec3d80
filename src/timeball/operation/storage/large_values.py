"""The depot: large parameters, results and output, as objects beside the store.

An object is there for good before a row refers to it. Who submits large parameters waits for that, and is refused
while the object storage does not answer. A run has ended, whether its result finds a place there or not: then the
result is kept in the store like a small one, as is output until it was moved. So only what is large waits for the
object storage, and nothing is ever lost with it.
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
"""How long a request waits for an object."""
SHORT: Final = 3 * SECOND
"""How long others may have to wait for the same answer."""
OBJECT_RETRY_DELAY: Final = 10 * SECOND
"""After a failure, who may not hold up others does not even ask."""
AT_ONCE: Final = 4
"""Outputs that are moved at the same time."""
RETRY_AFTER: Final = 5.0
"""Seconds."""
PAGE: Final = 1_000
_encode = msgspec.json.Encoder().encode
_decode_parameters = msgspec.json.Decoder(dict[str, object]).decode
_decode_line = msgspec.json.Decoder(LogLine).decode
_log = structlog.get_logger()


class Missing(Unavailable):
    """Somebody took an object away that a row refers to."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the large values of a store go to."""

    objects: Objects
    store: Store
    number: int
    """That of the store, from `Store.number`."""
    clock: Clock


class LargeValueStore:
    """Without a place, nothing goes there, and what is there cannot be read."""

    def __init__(self, place: Place | None = None) -> None:
        self._place = place
        self._asks_again_at: Micros = 0
        self._room = asyncio.Semaphore(AT_ONCE)

    @property
    def takes(self) -> bool:
        return self._place is not None

    # --- parameters ------------------------------------------------------------------------------------------------

    async def offload(self, specs: Mapping[str, JobSpec]) -> dict[str, JobSpec]:
        """Specs by their owners, a job or an edited run; without their parameters where these are large."""
        if self._place is None:
            return dict(specs)
        kept, objects = dict(specs), dict[str, bytes]()
        for owner, spec in specs.items():
            content = _encode(spec.parameters)
            if len(content) > LARGE:
                key = self._key("payloads", f"{owner}-{_digest(content)}.json")
                objects[key] = content
                kept[owner] = offloaded(spec, key)
        if objects:
            await self._put(objects, OBJECT_TIMEOUT)
        return kept

    async def whole(self, spec: JobSpec) -> JobSpec:
        """The spec with its parameters."""
        if not isinstance(spec, OffloadedSpec):
            return spec
        return spec.with_parameters(_decode_parameters(await self._get(spec.parameters_at, OBJECT_TIMEOUT)))

    async def whole_job(self, found: JobStatus) -> JobStatus:
        if not isinstance(found.job.spec, OffloadedSpec):
            return found
        return structs.replace(found, job=found.job.with_(spec=await self.whole(found.job.spec)))

    async def whole_json(self, spec: bytes, key: str) -> bytes | None:
        """An encoded spec with its parameters; None: they cannot be had now. Does not hold others up for long."""
        if self._rests:
            return None
        try:
            return fill(spec, await self._get(key, SHORT))
        except Unavailable as error:
            _log.warning("a run cannot start, since its parameters cannot be read", error=str(error))
            return None

    # --- results ---------------------------------------------------------------------------------------------------

    async def offload_result(self, run_id: str, token: int, outcome: Outcome, location: str | None = None) -> Outcome:
        """The outcome, with a reference where its result is large or has a place; as it is, if that cannot be written
        now."""
        if not isinstance(outcome, Succeeded) or not isinstance(outcome.result, Raw):
            return outcome
        if self._place is None or self._rests or (location is None and not is_large(outcome)):
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
        """What is in an object; None: somebody took it away. Does not hold others up for long."""
        try:
            return await self._get(key, SHORT)
        except Missing:
            return None

    async def whole_run(self, run: Run) -> Run:
        """The run with its result."""
        key = large_values.reference(run.result)
        if key is None:
            return run
        return structs.replace(run, result=Raw(await self._get(key, OBJECT_TIMEOUT)))

    # --- output ----------------------------------------------------------------------------------------------------

    async def offload_output(self, run_id: str, attempt: int) -> None:
        """Move what an attempt that ended has printed, if that is much."""
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
        """Output in order, as `ReadStore.logs` tells it, wherever it is."""
        found = await store.logs(run_id, attempt, after, limit)
        if not any(line.stream == REFERENCE for line in found):
            return found
        return (await self.expanded(found, after))[:limit]

    async def expanded(self, found: Sequence[LogLine], after: int) -> list[LogLine]:
        """Lines, with those that others stand for, and that come after a place."""
        lines: list[LogLine] = []
        for line in found:
            if line.stream != REFERENCE:
                lines.append(line)
                continue
            content = await self._get(line.text, OBJECT_TIMEOUT)
            moved = await asyncio.to_thread(_unpacked, content)
            lines += [each for each in moved if (each.attempt, each.seq) > divmod(after, 1_000_000)]
        return lines

    # --- what nobody refers to -------------------------------------------------------------------------------------

    async def sweep(self, now: Micros) -> int:
        """Delete the objects that no row refers to, nor can begin to; how many."""
        if self._place is None:
            return 0
        return sum([await _sweep(self._place, kind, now) for kind in large_values.KINDS])

    # --- within ----------------------------------------------------------------------------------------------------

    @property
    def _rests(self) -> bool:
        return self._place is not None and self._place.clock.monotonic() < self._asks_again_at

    def _rest(self) -> None:
        if self._place is not None:
            self._asks_again_at = self._place.clock.monotonic() + OBJECT_RETRY_DELAY

    def _key(self, kind: str, name: str) -> str:
        assert self._place is not None
        return large_values.key(kind, self._place.number, self._place.store.now(), name)

    async def _put(self, objects: Mapping[str, bytes], patience: Micros) -> None:
        assert self._place is not None
        with self._told("large values cannot be kept"):
            async with asyncio.timeout(patience / SECOND):
                await self._place.objects.put(objects)

    async def _get(self, key: str, patience: Micros) -> bytes:
        if self._place is None:
            raise Unavailable(f"{key} is kept in object storage, and this server was not told where: see --objects")
        with self._told(f"{key} cannot be read"):
            async with asyncio.timeout(patience / SECOND):
                [content] = await self._place.objects.get([key])
        if content is None:
            raise Missing(f"{key} is not in the object storage any more")
        return content

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """What cannot be done, and why; those who may not hold up others do without for a while."""
        try:
            yield
        except (TimeoutError, Unavailable) as error:
            self._rest()
            why = str(error) or "the object storage does not answer in time"
            raise Unavailable(f"{what}: {why}", retry_after=RETRY_AFTER) from error


async def _sweep(place: Place, kind: str, now: Micros) -> int:
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
    """The folders of days below a prefix."""
    folders = [prefix]
    for _ in ("year", "month", "day"):
        folders = [inner for each in folders for inner in await objects.folders(each)]
    return folders


def is_large(outcome: Outcome) -> bool:
    """Whether it brings a result that is kept elsewhere."""
    return type(outcome) is Succeeded and outcome.result is not UNSET and len(outcome.result) > LARGE


def _packed(lines: Sequence[LogLine]) -> bytes:
    compressor = zlib.compressobj(wbits=31)
    packed = [compressor.compress(_encode(line) + b"\n") for line in lines]
    return b"".join([*packed, compressor.flush()])


def _unpacked(content: bytes) -> list[LogLine]:
    return [_decode_line(line) for line in zlib.decompress(content, wbits=31).splitlines()]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
