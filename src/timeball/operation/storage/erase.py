"""Delete the objects of one tenant: large values, and archived runs.

The work is done folder by folder, in the order of their names. `of_folder` says what belongs to the tenant, and
`delete` deletes it. Both may be repeated after a crash between any two lines: nothing of another tenant is lost, and
what is deleted is not found again.

Earlier versions archived runs of several tenants in one object. Such a part is written anew without the lines of the
tenant, with a manifest that names the new parts, before the old objects are deleted. Between the two, readers find the
other runs twice and show them once.
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct, structs

from timeball.domain import ids
from timeball.domain.errors import Unavailable
from timeball.domain.instant import DAY, Micros
from timeball.domain.run import archive_record
from timeball.domain.run.archive_record import Manifest, Part
from timeball.operation.storage.archive import growing_part
from timeball.operation.storage.large_values import LargeValueStore
from timeball.operation.storage.search_archive import lines_of
from timeball.ports.object_store import Objects
from timeball.ports.store.store import Store

DELETED_AT_ONCE: Final = 1_000
_FOLDER_LEVELS: Final = 3
"""Year, month and day."""


class Erasure(Struct, frozen=True):
    """What is to be deleted of one folder."""

    objects: Objects
    keys: Sequence[str]
    """In the order in which they are deleted."""
    counts: dict[str, int]

    async def delete(self) -> None:
        for at in range(0, len(self.keys), DELETED_AT_ONCE):
            await self.objects.delete(self.keys[at : at + DELETED_AT_ONCE])


class Eraser:
    """Finds the objects of tenants. `archive` is the object storage of the archive, if there is one."""

    def __init__(self, store: Store, large_value_store: LargeValueStore, archive: Objects | None) -> None:
        self._store = store
        self._large_value_store = large_value_store
        self._archive = archive

    async def folders(self, since: Micros) -> list[str]:
        """Return the folders of days from the day of `since` on, in order. Nothing of the tenant is older."""
        found = await self._large_value_store.folders()
        if self._archive is not None:
            for top in (archive_record.PARTS, archive_record.MANIFESTS):
                found += await _days(self._archive, top)
        first = archive_record.day_of(ids.first_run(max(0, since - DAY)))
        return sorted(each for each in found if each.split("/")[-4:-1] >= f"{first:%Y/%m/%d}".split("/"))

    async def of_folder(self, folder: str, tenant: str) -> Erasure:
        archive = self._archive
        if archive is None or not folder.startswith((archive_record.PARTS, archive_record.MANIFESTS)):
            return await self._values(folder, tenant)
        own = await archive.list(f"{folder}{archive_record.folder_of(tenant)}")
        if folder.startswith(archive_record.PARTS):
            return Erasure(archive, own, {"archiveObjects": len(own)})
        runs = sum(each.runs for each in await _manifests(archive, own))
        shared = [key for key in await archive.list(folder) if key.count("/") == folder.count("/")]
        old: list[str] = []
        for key, manifest in zip(shared, await archive.get(shared), strict=True):
            if manifest is not None:
                gone, replaced = await _rewritten(archive, key, archive_record.decode_manifest(manifest), tenant)
                runs += gone
                old += replaced
        return Erasure(archive, [*own, *old], {"archiveObjects": len(own) + len(old), "archivedRuns": runs})

    async def _values(self, folder: str, tenant: str) -> Erasure:
        objects, keys = await self._large_value_store.of_tenant(self._store, folder, tenant)
        return Erasure(objects, keys, {"objects": len(keys)})


async def _days(objects: Objects, top: str) -> list[str]:
    folders = [top]
    for _ in range(_FOLDER_LEVELS):
        folders = [inner for each in folders for inner in await objects.folders(each)]
    return folders


async def _manifests(archive: Objects, keys: Sequence[str]) -> list[Manifest]:
    contents = await archive.get([key for key in keys if key.endswith(".json")])
    return [archive_record.decode_manifest(content) for content in contents if content is not None]


async def _rewritten(archive: Objects, key: str, manifest: Manifest, tenant: str) -> tuple[int, list[str]]:
    """Write the parts of a manifest of an earlier version without the runs of a tenant, and a manifest that names them.
    Return the number of these runs, and the objects to delete: first the output, so that the runs still say whose it
    is if this is interrupted, and the manifest last. Nothing is written if the manifest has no run of the tenant, and
    all its objects exist."""
    if manifest.tenant:
        return 0, []
    gone: set[str] = set()

    def of_tenant(line: bytes) -> bool:
        head = archive_record.decode_head(line)
        if head.tenant == tenant:
            gone.add(head.run_id)
        return head.tenant == tenant

    runs, old_runs = await _without(archive, manifest, "runs", of_tenant)
    if not gone and len(runs) == len(manifest.run_parts):
        return 0, []
    logs, old_logs = await _without(archive, manifest, "logs", lambda line: _run_id(line) in gone)
    kept = structs.replace(manifest, runs=_records(runs), logs=_records(logs), run_parts=runs, log_parts=logs)
    if kept.runs:
        content = archive_record.encode(kept)
        folder = key.rpartition("/")[0]
        await archive.put({f"{folder}/{hashlib.sha256(content).hexdigest()[:16]}.json": content})
    return len(gone), [*old_logs, *old_runs, key]


async def _without(
    archive: Objects, manifest: Manifest, kind: str, leaves: Callable[[bytes], bool]
) -> tuple[list[Part], list[str]]:
    """Write the parts without the lines for which `leaves` is true. Return the parts that hold the other lines, and the
    keys of those that are replaced."""
    parts: list[Part] = []
    replaced: list[str] = []
    for part in manifest.run_parts if kind == "runs" else manifest.log_parts:
        [content] = await archive.get([part.key])
        if content is None:  # deleted by a rule of the object storage, or by an earlier call
            continue
        try:
            found = await asyncio.to_thread(_kept, content, leaves)
        except (zlib.error, msgspec.MsgspecError) as error:
            raise Unavailable(f"the archive's object {part.key} cannot be read: {error}") from None
        if found is None:
            parts.append(part)
            continue
        replaced.append(part.key)
        if found:
            new, shorter = await asyncio.to_thread(growing_part, found, manifest.day, kind)
            await archive.put({new.key: shorter})
            parts.append(new)
    return parts, replaced


def _kept(content: bytes, leaves: Callable[[bytes], bool]) -> list[bytes] | None:
    """Return the lines that stay; None if all do."""
    lines = lines_of(content)
    kept = [line for line in lines if not leaves(line)]
    return None if len(kept) == len(lines) else kept


class _Line(Struct, rename="camel"):
    run_id: str


_decode_line = msgspec.json.Decoder(_Line).decode


def _run_id(line: bytes) -> str:
    return _decode_line(line).run_id


def _records(parts: Iterable[Part]) -> int:
    return sum(part.records for part in parts)
