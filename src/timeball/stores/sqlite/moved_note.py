"""A note in a SQLite store that was moved to another database. It says where the data is now.

The note is a table that no other store has. It is written durably before the other database commits the moved data:
from then on at most one of the two can be started, whatever fails in between.
"""

from __future__ import annotations

import shlex
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from timeball.domain import instant
from timeball.domain.errors import Conflict
from timeball.domain.instant import SECOND, Micros

TABLE: Final = "moved"


@dataclass(frozen=True, slots=True)
class Note:
    move: str
    """The id of the move. The other database stores it in the transaction that contains the moved data."""
    target: str
    """The address of the other database, without its password."""
    at: Micros
    arrived: bool
    """False if it is not known yet whether the other database committed."""


def read(connection: sqlite3.Connection) -> Note | None:
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", (TABLE,)).fetchone() is None:
        return None
    move, target, at, arrived = connection.execute(f"SELECT move, target, at, arrived FROM {TABLE}").fetchone()
    return Note(move, target, at, bool(arrived))


def write(connection: sqlite3.Connection, note: Note) -> None:
    """Write the note, inside a transaction."""
    erase(connection)
    connection.execute(f"CREATE TABLE {TABLE} (move TEXT, target TEXT, at BIGINT, arrived BIGINT)")
    connection.execute(f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?)", (note.move, note.target, note.at, note.arrived))


def erase(connection: sqlite3.Connection) -> None:
    connection.execute(f"DROP TABLE IF EXISTS {TABLE}")


def refusal(file: Path, note: Note) -> Conflict:
    """Return the error that explains why the store must not be used."""
    command = f"timeball migrate --store {shlex.quote(f'sqlite:///{file}')}"
    target = shlex.quote(note.target)
    if not note.arrived:
        return Conflict(
            f"the move of {file} to {note.target} was interrupted in its last step, and it is not known here whether "
            f"all data arrived. Check that and finish the move with: {command} --to {target}"
        )
    at = instant.render(note.at // SECOND * SECOND)
    return Conflict(
        f"everything in {file} moved to {note.target} at {at}: start with --store {target}. "
        "To use the old store again, first make sure that no server uses the new one, because both would fire "
        f"every job; then: {command} --take-back"
    )
