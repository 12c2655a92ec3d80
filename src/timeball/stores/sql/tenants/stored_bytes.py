"""Output and results of tenants with a quota of stored bytes.

What an attempt prints or returns beyond the quota is not stored; a note in its output says so. The bytes are counted
in the transaction that stores them. What is deleted leaves the count when maintenance recounts the tenant. If no tenant
has such a quota, nothing here costs a statement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import starmap
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from timeball.domain.instant import Micros
from timeball.domain.quota import NOTE_OF_BYTES, KnownQuotas
from timeball.domain.run.lifecycle import Succeeded
from timeball.ports.store.runs import Settlement
from timeball.ports.worker_protocol import MAX_CHUNKS_PER_ATTEMPT
from timeball.stores.sql.driver import Driver, Row, Tx, Work
from timeball.stores.sql.schema.runs import LOGS, LogRow
from timeball.stores.sql.schema.table import as_tuple
from timeball.stores.sql.statements import query
from timeball.stores.sql.tenants.quotas import add_bytes, lock_use

TENANTS_OF_RUNS = query("tenants_of_runs")
CHUNKS_THAT_EXIST = query("chunks_that_exist")
SIZES_OF_RESULTS = query("sizes_of_results")

NOTE_SEQ: Final = MAX_CHUNKS_PER_ATTEMPT - 1
"""The place of the note in the output of an attempt. No other chunk comes after it, and it is stored once."""
_Chunk = tuple[str, int, int]
T = TypeVar("T")


class OutOfSpace(Exception):
    """Raised when results do not fit into the quotas of their tenants; the transaction must be rolled back."""

    def __init__(self, run_ids: Collection[str]) -> None:
        self.run_ids = run_ids


class Results:
    """Counts the results of a batch of settlements for the quotas of stored bytes, and drops the results that do not
    fit."""

    def __init__(self, known: KnownQuotas, now: Micros) -> None:
        self._limits = known.of_bytes()
        self._now = now
        self._dropped: set[str] = set()

    async def write(
        self, db: Driver, settlements: Sequence[Settlement], work: Callable[[Sequence[Settlement]], Work[T]]
    ) -> T:
        """Execute the transaction that `work` returns. Repeat it without the results that do not fit."""
        while True:
            try:
                return await db.write(work([self._fitting(each) for each in settlements]))
            except OutOfSpace as full:
                self._dropped.update(full.run_ids)

    def _fitting(self, each: Settlement) -> Settlement:
        return each if each.run_id not in self._dropped else replace(each, outcome=Succeeded(), offloaded=0)

    async def count(self, tx: Tx, ended: Sequence[Settlement]) -> None:
        """Count the results of runs that this transaction has ended. Raise `OutOfSpace` if some do not fit."""
        if not self._limits:
            return
        noted = [(each.run_id, each.attempt) for each in ended if each.run_id in self._dropped]
        ids = [each.run_id for each in ended if each.offloaded or _has_result(each) or each.run_id in self._dropped]
        rows = await tx.fetch(SIZES_OF_RESULTS, b=ids, tenants=sorted(self._limits)) if ids else []
        if not rows:
            return
        tenants = {run_id: tenant for run_id, tenant, _ in rows}
        room = await _room(tx, self._limits, tenants.values())
        left = room.copy()
        if full := [run_id for run_id, tenant, size in rows if size and not _take(left, tenant, size)]:
            raise OutOfSpace(full)
        added = Counter({tenant: room[tenant] - left[tenant] for tenant in room})
        added.update(await _note(tx, noted, tenants, self._now))
        await add_bytes(tx, added)


async def fitting_output(tx: Tx, known: KnownQuotas, rows: Sequence[Row], now: Micros) -> list[Row]:
    """Return the chunks of output to store, and count their bytes. Of tenants with a quota of stored bytes, chunks that
    do not fit and chunks that are stored already are left out; the chunks of other tenants are all returned."""
    limits = known.of_bytes()
    chunks = list(starmap(LogRow, rows))
    if not limits:
        return [*rows]
    found = await tx.fetch(TENANTS_OF_RUNS, b=sorted({each.run_id for each in chunks}), tenants=sorted(limits))
    if not found:
        return [*rows]
    tenants: dict[str, str] = dict(found)
    stored = await _existing(tx, [(each.run_id, each.attempt, each.seq) for each in chunks if each.run_id in tenants])
    room = await _room(tx, limits, tenants.values())
    left = room.copy()
    kept: list[Row] = []
    cut: dict[tuple[str, int], None] = {}
    for each, row in zip(chunks, rows, strict=True):
        tenant = tenants.get(each.run_id)
        if tenant is not None and (each.run_id, each.attempt, each.seq) in stored:
            continue
        if tenant is None or _take(left, tenant, len(each.text.encode())):
            kept.append(row)
        else:
            cut[each.run_id, each.attempt] = None
    added = Counter({tenant: room[tenant] - left[tenant] for tenant in room})
    added.update(await _note(tx, [*cut], tenants, now))
    await add_bytes(tx, added)
    return kept


async def _room(tx: Tx, limits: Mapping[str, int], tenants: Collection[str]) -> dict[str, int]:
    """Lock the quotas of tenants. Return how many bytes fit into each."""
    used = await lock_use(tx, set(tenants))
    return {tenant: limits[tenant] - each.stored_bytes for tenant, each in used.items()}


def _take(left: dict[str, int], tenant: str, size: int) -> bool:
    if size > left[tenant]:
        return False
    left[tenant] -= size
    return True


async def _note(tx: Tx, attempts: Sequence[tuple[str, int]], tenants: Mapping[str, str], now: Micros) -> Counter[str]:
    """Store the note for attempts that have none yet. Return the bytes of the notes, by tenant."""
    places = [(run_id, attempt, NOTE_SEQ) for run_id, attempt in attempts]
    noted = await _existing(tx, places)
    new = [place for place in places if place not in noted]
    if new:
        await tx.insert(LOGS, [as_tuple(LogRow(*place, "stderr", now, NOTE_OF_BYTES)) for place in new])
    sizes: Counter[str] = Counter()
    for run_id, _, _ in new:
        sizes[tenants[run_id]] += len(NOTE_OF_BYTES.encode())
    return sizes


async def _existing(tx: Tx, chunks: Sequence[_Chunk]) -> set[_Chunk]:
    return (
        {(run_id, attempt, seq) for run_id, attempt, seq in await tx.fetch(CHUNKS_THAT_EXIST, b=chunks)}
        if chunks
        else set()
    )


def _has_result(settlement: Settlement) -> bool:
    return isinstance(settlement.outcome, Succeeded) and settlement.outcome.result is not msgspec.UNSET
