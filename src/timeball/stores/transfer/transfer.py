"""Moves a whole store from SQLite to PostgreSQL without losing or repeating a fire.

Every fire that was planned is a row of the old store, and every other fire follows from `jobs.next_fire_at`. A copy of
all rows is therefore a copy of all fires, if no row is added during the copy and only one of the two stores continues.
The steps are:

1. Take the lock of the old store that its server would hold, and lock out every other writer.
2. Copy all rows in one transaction, with the lock that servers take when they start on the new store.
3. Wait until the clock of the new store has passed the time of the old one: time never runs backwards.
4. Write a note to the old store, durably, that it must not be used any more. Only then commit the new store.
5. Mark in the note that all data arrived.

An interruption before step 4 changes nothing. Between steps 4 and 5 neither store can be started by mistake: the
receipt that is committed with the data shows the next try whether the move is complete.

Attempts that ran when the old server ended are still running according to the rows, under the leases of their workers.
They are treated as after a crash: a worker that finds the new server in time keeps its attempts. Otherwise they are
lost, and are repeated unless their job is delivered at most once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from timeball.domain import ids, retention
from timeball.domain.errors import Conflict, Unavailable
from timeball.domain.ids import Bits
from timeball.domain.instant import DAY, MINUTE, SECOND, Micros
from timeball.domain.text import english
from timeball.ports.store_transfer import ObjectCopier, Report, TransferProgress, TransferResult
from timeball.stores.sqlite import moved_note
from timeball.stores.sqlite.moved_note import Note
from timeball.stores.transfer import source as sources
from timeball.stores.transfer import target as targets
from timeball.stores.transfer.source import Source
from timeball.stores.transfer.target import TransferTarget

MAX_WAIT: Final = MINUTE
"""Maximum time to wait for the clock of the new store, in microseconds."""
MAX_DAYS: Final = retention.DEFAULT // DAY + 1
"""Maximum number of days of history that get partitions. Each partition takes locks until the commit, and their number
is limited; older days will be removed soon."""
_OF_THE_STORE_ITSELF: Final = frozenset({"token", "clock"})
"""Numbers in `meta` of a SQLite store that PostgreSQL does not keep there: the last token is a sequence, and the time
is the server's clock."""
_OBJECTS: Final = "objects"
"""The name of the number in `meta` that separates the objects of this store from those of other stores. It exists if
the store has offloaded values."""


@dataclass(frozen=True, slots=True)
class StoreTransfer:
    path: Path
    dsn: str
    wall: Callable[[], Micros]
    monotonic: Callable[[], Micros]
    bits: Bits
    carrier: ObjectCopier | None = None

    async def rehearse(self) -> TransferResult:
        """Return what would be moved now. This call changes nothing, and may run while a server uses the store."""
        with sources.visited(self.path, self.wall, self.monotonic) as (source, holder):
            _refuse_moved(source)
            async with targets.entered(self.dsn) as target:
                if source.note is not None and await target.has_receipt(source.note.move):
                    return self._report(source, {}, await target.now() - self.wall(), was_complete=True)
                rows = {table: source.count(table) for table in source.tables()}
                await target.require_empty(rows, self._address)
                if self.carrier is not None and (number := source.numbers().get(_OBJECTS)) is not None:
                    await self.carrier.check(number)
                ahead = await self._compare_clocks(source, target)
                return self._report(source, rows, ahead, held_by=holder)

    async def move(self, report: Report) -> TransferResult:
        with sources.opened(self.path, self.wall, self.monotonic) as source:
            _refuse_moved(source)
            async with targets.entered(self.dsn) as target:
                await target.make_room()
                earlier = source.note
                if earlier is not None and await target.has_receipt(earlier.move):
                    source.leave_note(Note(earlier.move, earlier.target, earlier.at, arrived=True))
                    return self._report(source, {}, await target.now() - self.wall(), was_complete=True)
                if earlier is not None and earlier.target != self._address:
                    raise moved_note.refusal(self.path, earlier)
                with source.kept_from_writers():
                    return await self._move(source, target, report)

    def take_back(self) -> None:
        """Allow the old store to be used again after it was moved. Raise `Conflict` if it was not moved."""
        with sources.opened(self.path, self.wall, self.monotonic) as source:
            if source.note is None:
                raise Conflict(f"{self.path} was not moved, so there is nothing to take back")
            source.reopen()

    async def _move(self, source: Source, target: TransferTarget, report: Report) -> TransferResult:
        tables = source.tables()
        await target.keep(tables)
        await target.require_empty(tables, self._address)
        ahead = await self._compare_clocks(source, target)
        if self.carrier is not None and (number := source.numbers().get(_OBJECTS)) is not None:
            await self.carrier.copy(number, report)  # before any row in the new store refers to them
        rows = {table: source.count(table) for table in tables}
        await target.drop_default_tenant()
        indexes = await target.drop_indexes(tables)
        await target.make_room_for({*source.days(MAX_DAYS), *retention.days_ahead(await target.now())})
        for table, columns in tables.items():
            await _copy(source, target, table, columns, rows[table], report)
        report(TransferProgress("counting the copied rows"))
        await target.verify(rows)
        report(TransferProgress("creating indexes"))
        await target.create_indexes(indexes)
        await target.analyze(tables)
        numbers = source.numbers()
        await target.set_numbers({name: value for name, value in numbers.items() if name not in _OF_THE_STORE_ITSELF})
        await target.continue_tokens(numbers["token"])
        await _await_clock(source, target, report)
        await target.move_leases(source.clock())
        await self._hand_over(source, target)
        return self._report(source, rows, ahead)

    async def _hand_over(self, source: Source, target: TransferTarget) -> None:
        now = await target.now()
        note = Note(ids.make("m", now, self.bits), self._address, now, arrived=False)
        await target.leave_receipt(note.move, now)
        source.leave_note(note)
        try:
            await target.commit()
        except Exception as error:
            raise Unavailable(
                f"PostgreSQL did not confirm the commit ({error}). "
                "Run the same command again: it checks the result, and finishes the move or starts it again"
            ) from error
        source.leave_note(Note(note.move, note.target, note.at, arrived=True))

    async def _compare_clocks(self, source: Source, target: TransferTarget) -> Micros:
        """Return how far PostgreSQL's clock is ahead of this machine. Raise `Conflict` if it is more than a minute
        behind the store."""
        now = await target.now()
        behind = source.numbers().get("clock", 0) - now
        if behind > MAX_WAIT:
            raise Conflict(
                f"PostgreSQL's clock is {english.about(behind)} behind the time of this store, and time "
                "must not run backwards: set the clock of PostgreSQL's machine, or wait that long"
            )
        return now - self.wall()

    def _report(
        self,
        source: Source,
        rows: dict[str, int],
        ahead: Micros,
        *,
        held_by: str | None = None,
        was_complete: bool = False,
    ) -> TransferResult:
        return TransferResult(
            source=str(self.path),
            target=self._address,
            rows=rows,
            token=source.numbers()["token"],
            ahead=ahead,
            held_by=held_by,
            was_complete=was_complete,
        )

    @property
    def _address(self) -> str:
        return targets.shown(self.dsn)


def _refuse_moved(source: Source) -> None:
    note = source.note
    if note is not None and note.arrived:
        raise moved_note.refusal(source.file, note)


async def _copy(
    source: Source, target: TransferTarget, table: str, columns: tuple[str, ...], count: int, report: Report
) -> None:
    done = 0
    report(TransferProgress(table, 0, count))
    for batch in source.batches(table, columns):
        await target.copy(table, columns, batch)
        done += len(batch)
        report(TransferProgress(table, done, count))


async def _await_clock(source: Source, target: TransferTarget, report: Report) -> None:
    mark = source.numbers().get("clock", 0)
    while (behind := mark - await target.now()) >= 0:
        report(TransferProgress(f"waiting {english.about(behind)} for PostgreSQL's clock"))
        await asyncio.sleep((behind + 1) / SECOND)
