"""The SQLite store that is moved: nobody else writes to it meanwhile."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from timeball.domain import ids, retention
from timeball.domain.errors import Conflict
from timeball.domain.instant import Micros
from timeball.stores.sqlite import moved_note
from timeball.stores.sqlite.clock import SteadyClock
from timeball.stores.sqlite.file import Database
from timeball.stores.sqlite.moved_note import Note

ROWS: Final = 5_000
TEXT: Final = 8 * 1024 * 1024
"""A batch has at most so many rows, and about so many characters, so that memory is bounded whatever is in them."""
MANY_TOKENS: Final = 1_000_000_000_000
AFTER_ALL_RUNS: Final = "r_g"
"""Ids go on in hexadecimal digits."""

_TABLES: Final = """
SELECT name FROM sqlite_schema
WHERE type = 'table' AND name NOT LIKE 'sqlite|_%' ESCAPE '|' AND name NOT IN ('migrations', 'meta', ?) ORDER BY name
"""
_COLUMNS: Final = "SELECT name FROM pragma_table_info(?) ORDER BY cid"

Batch = list[tuple[Any, ...]]


class Source:
    """A store's tables as they are; its methods block, and never for long."""

    def __init__(self, file: Path, connection: sqlite3.Connection, clock: SteadyClock) -> None:
        self.file = file
        self.clock = clock
        self._connection = connection

    @property
    def note(self) -> Note | None:
        return moved_note.read(self._connection)

    def tables(self) -> dict[str, tuple[str, ...]]:
        """Every table with its columns, whichever there are: one that is added some day is moved like the others."""
        names = [name for (name,) in self._connection.execute(_TABLES, (moved_note.TABLE,))]
        return {name: tuple(column for (column,) in self._connection.execute(_COLUMNS, (name,))) for name in names}

    def numbers(self) -> dict[str, int]:
        """What `meta` says, such as the last token, and the time that the store had come to."""
        return dict(self._connection.execute("SELECT name, value FROM meta").fetchall())

    def count(self, table: str) -> int:
        (count,) = self._connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(count)

    def batches(self, table: str, columns: tuple[str, ...]) -> Iterator[Batch]:
        """All rows, in the order of their keys."""
        batch: Batch = []
        size = 0
        for row in self._connection.execute(f"SELECT {', '.join(columns)} FROM {table}"):
            for value in row:
                if isinstance(value, str | bytes):
                    size += len(value)
            batch.append(row)
            if len(batch) == ROWS or size >= TEXT:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def days(self, most: int) -> list[Micros]:
        """The last days on which runs were made that are over: newest first."""
        found: list[Micros] = []
        before = AFTER_ALL_RUNS
        while len(found) < most:
            (last,) = self._connection.execute("SELECT max(id) FROM history WHERE id < ?", (before,)).fetchone()
            if last is None or not ids.is_id("r", last):
                break
            found.append(retention.day_of(ids.made_at(last)))
            before = ids.first_run(found[-1])
        return found

    @contextlib.contextmanager
    def kept_from_writers(self) -> Iterator[None]:
        """Until `leave_note`, or as if nothing had happened."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def leave_note(self, note: Note) -> None:
        """Durable when this returns."""
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")
        moved_note.write(self._connection, note)
        self._connection.execute("COMMIT")

    def reopen(self) -> None:
        """Let the store be used again, with tokens above all that the other one may have given out meanwhile."""
        self._connection.execute("BEGIN IMMEDIATE")
        moved_note.erase(self._connection)
        self._connection.execute("UPDATE meta SET value = value + ? WHERE name = 'token'", (MANY_TOKENS,))
        self._connection.execute("COMMIT")


@contextlib.contextmanager
def opened(path: Path, wall: Callable[[], Micros], monotonic: Callable[[], Micros]) -> Iterator[Source]:
    """The store, whole and up to date, with the lock that its server would have."""
    clock = SteadyClock(wall, monotonic)
    database = _existing(path, clock)
    database.lock()
    try:
        with contextlib.closing(database.connect(durable=True, even_if_moved=True)) as connection:
            yield Source(path, connection, clock)
    except sqlite3.Error as error:
        raise database.explained(error) from error
    finally:
        database.unlock()


@contextlib.contextmanager
def visited(
    path: Path, wall: Callable[[], Micros], monotonic: Callable[[], Micros]
) -> Iterator[tuple[Source, str | None]]:
    """The store as it is, to be read only, also while somebody uses it; and who does."""
    clock = SteadyClock(wall, monotonic)
    database = _existing(path, clock)
    try:
        with contextlib.closing(database.connect_reader()) as connection:
            yield Source(path, connection, clock), database.holder()
    except sqlite3.Error as error:
        raise database.explained(error) from error


def _existing(path: Path, clock: SteadyClock) -> Database:
    if not path.is_file():
        raise Conflict(f"there is no store to move: {path} is not there; say where it is with --data-dir or --store")
    return Database(path, clock)
