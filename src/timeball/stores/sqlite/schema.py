"""The schema of a SQLite store: read while a server uses it, and migrated while none does."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from timeball.domain.errors import Conflict
from timeball.ports.store_schema import SchemaState
from timeball.stores.sqlite.clock import SteadyClock
from timeball.stores.sqlite.file import Database, is_file, read_schema


def schema_of(path: Path) -> SchemaState:
    database = _database(path)
    try:
        with contextlib.closing(database.connect_reader()) as connection:
            return read_schema(connection)
    except sqlite3.Error as error:
        raise database.explained(error) from error


def upgrade_schema(path: Path, clock: SteadyClock) -> None:
    database = _database(path, clock)
    database.lock()
    try:
        database.connect(durable=True).close()
    finally:
        database.unlock()


def _database(path: Path, clock: SteadyClock | None = None) -> Database:
    if not is_file(path):
        raise Conflict(f"there is no store: {path} does not exist; set its path with --data-dir or --store")
    return Database(path, clock or SteadyClock(lambda: 0, lambda: 0))
