"""The note in a SQLite store that went to another database: who opens it learns where everything is now.

It is a table that no other store has. It is written, durably, before the other database commits what it got: from then
on at most one of the two can be started, whatever breaks in between.
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
    """The id of the move: the other database has it too, from the commit on that made everything arrive."""
    target: str
    """The other database, without a password."""
    at: Micros
    arrived: bool
    """False: nobody has heard yet whether that commit took place."""


def read(connection: sqlite3.Connection) -> Note | None:
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", (TABLE,)).fetchone() is None:
        return None
    move, target, at, arrived = connection.execute(f"SELECT move, target, at, arrived FROM {TABLE}").fetchone()
    return Note(move, target, at, bool(arrived))


def write(connection: sqlite3.Connection, note: Note) -> None:
    """Inside a transaction."""
    erase(connection)
    connection.execute(f"CREATE TABLE {TABLE} (move TEXT, target TEXT, at BIGINT, arrived BIGINT)")
    connection.execute(f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?)", (note.move, note.target, note.at, note.arrived))


def erase(connection: sqlite3.Connection) -> None:
    connection.execute(f"DROP TABLE IF EXISTS {TABLE}")


def refusal(file: Path, note: Note) -> Conflict:
    """Why the store is not to be used."""
    command = f"timeball migrate --store {shlex.quote(f'sqlite:///{file}')}"
    target = shlex.quote(note.target)
    if not note.arrived:
        return Conflict(
            f"the move of {file} to {note.target} broke off at its very end, and it is not known here whether "
            f"everything arrived. Find out and finish it with: {command} --to {target}"
        )
    at = instant.render(note.at // SECOND * SECOND)
    return Conflict(
        f"everything in {file} moved to {note.target} at {at}: start with --store {target}. "
        "To use the old store again, first make sure that nobody uses the new one any more, since both would fire "
        f"every job; then: {command} --take-back"
    )
