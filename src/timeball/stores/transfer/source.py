"""The SQLite store that is moved. No other process writes to it during the move."""

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
"""A batch of rows ends when it has this many characters (or 5,000 rows), so that its memory is bounded for any
content."""
MANY_TOKENS: Final = 1_000_000_000_000
AFTER_ALL_RUNS: Final = "r_g"
"""An id that sorts after all run ids, which continue with hexadecimal digits."""

_TABLES: Final = """
SELECT name FROM sqlite_schema
WHERE type = 'table' AND name NOT LIKE 'sqlite|_%' ESCAPE '|' AND name NOT IN ('migrations', 'meta', ?) ORDER BY name
"""
_COLUMNS: Final = "SELECT name FROM pragma_table_info(?) ORDER BY cid"

Batch = list[tuple[Any, ...]]


class Source:
    """The tables of a SQLite store. Its methods block for a short time."""

    def __init__(self, file: Path, connection: sqlite3.Connection, clock: SteadyClock) -> None:
        self.file = file
        self.clock = clock
        self._connection = connection

    @property
    def note(self) -> Note | None:
        return moved_note.read(self._connection)

    def tables(self) -> dict[str, tuple[str, ...]]:
        """Return the tables to copy, each with its columns: all but `migrations`, `meta` and the note of a move. They
        are read from the database, so that tables which later versions add are copied, too."""
        names = [name for (name,) in self._connection.execute(_TABLES, (moved_note.TABLE,))]
        return {name: tuple(column for (column,) in self._connection.execute(_COLUMNS, (name,))) for name in names}

    def numbers(self) -> dict[str, int]:
        """Return the rows of `meta`, such as the last token and the time of the store when it was last used."""
        return dict(self._connection.execute("SELECT name, value FROM meta").fetchall())

    def count(self, table: str) -> int:
        (count,) = self._connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(count)

    def batches(self, table: str, columns: tuple[str, ...]) -> Iterator[Batch]:
        """Yield all rows of a table in batches, in the order in which SQLite stores them."""
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

    def days(self, limit: int) -> list[Micros]:
        """Return the newest days with rows in the history, newest first, at most `limit`."""
        found: list[Micros] = []
        before = AFTER_ALL_RUNS
        while len(found) < limit:
            (last,) = self._connection.execute("SELECT max(id) FROM history WHERE id < ?", (before,)).fetchone()
            if last is None or not ids.is_id("r", last):
                break
            found.append(retention.day_of(ids.made_at(last)))
            before = ids.first_run(found[-1])
        return found

    @contextlib.contextmanager
    def kept_from_writers(self) -> Iterator[None]:
        """Lock the store against other writers until `leave_note` is called, or until the block ends."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def leave_note(self, note: Note) -> None:
        """Write the note that the store was moved, durably."""
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")
        moved_note.write(self._connection, note)
        self._connection.execute("COMMIT")

    def reopen(self) -> None:
        """Allow the store to be used again, with tokens above all that the other store may have issued since the
        move."""
        self._connection.execute("BEGIN IMMEDIATE")
        moved_note.erase(self._connection)
        self._connection.execute("UPDATE meta SET value = value + ? WHERE name = 'token'", (MANY_TOKENS,))
        self._connection.execute("COMMIT")


@contextlib.contextmanager
def opened(path: Path, wall: Callable[[], Micros], monotonic: Callable[[], Micros]) -> Iterator[Source]:
    """Open the store, checked and migrated, with the lock that its server would hold."""
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
    """Open the store read-only, also while a server uses it. Yield it with the id of the process that uses it."""
    clock = SteadyClock(wall, monotonic)
    database = _existing(path, clock)
    try:
        with contextlib.closing(database.connect_reader()) as connection:
            yield Source(path, connection, clock), database.holder()
    except sqlite3.Error as error:
        raise database.explained(error) from error


def _existing(path: Path, clock: SteadyClock) -> Database:
    if not path.is_file():
        raise Conflict(f"there is no store to move: {path} does not exist; set its path with --data-dir or --store")
    return Database(path, clock)
