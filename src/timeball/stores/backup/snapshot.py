"""A copy of a SQLite database, made while a server may use it, and what the copy contains."""

from __future__ import annotations

import contextlib
import os
import pwd
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from timeball.domain.errors import Conflict
from timeball.domain.instant import Micros
from timeball.stores.sql.migrate import known, refuse_newer
from timeball.stores.sqlite import log, moved_note
from timeball.stores.sqlite.clock import SteadyClock
from timeball.stores.sqlite.file import Database, is_file

TOKENS_BETWEEN: Final = 1_000_000_000
"""Maximum number of fencing tokens that the store is assumed to have issued since the backup. The tokens of a restored
store begin after them."""
_TABLES: Final = (
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite|_%' ESCAPE '|' ORDER BY 1"
)
_REFERENCES: Final = """
SELECT text FROM logs WHERE stream = '@'
UNION SELECT substr(result, 2) FROM history WHERE result LIKE '@results/%'
UNION SELECT json_extract(spec, '$.parametersAt')
FROM (
  SELECT spec FROM jobs UNION ALL SELECT spec FROM job_versions
  UNION ALL SELECT spec FROM runs UNION ALL SELECT spec FROM edited_runs
) WHERE spec LIKE '%"parametersAt":"payloads/%'
"""


class Contents(Struct, frozen=True, kw_only=True):
    schema: int
    oldest_schema: int
    store_time: Micros
    rows: dict[str, int]


def copy_database(path: Path, target: Path) -> None:
    """Copy a database that may be in use, consistently and compactly. Raise `Conflict` if it cannot be a backup: it
    does not exist, lost commits, was moved, or is a file of another user of the machine."""
    if not is_file(path):
        raise Conflict(f"there is no store to back up: {path} does not exist; set its path with --data-dir or --store")
    owner = path.stat().st_uid
    if owner != os.geteuid():
        raise Conflict(
            f"{path} belongs to the user {_name(owner)}: run this command as that user, because files that another user"
            " creates beside the database could keep its server from starting"
        )
    database = Database(path, SteadyClock(lambda: 0, lambda: 0))
    try:
        _refuse_damage(database)
        with contextlib.closing(database.connect_reader()) as connection:
            if (note := moved_note.read(connection)) is not None:
                raise moved_note.refusal(path, note)
            connection.execute("VACUUM INTO ?", (str(target),))
    except sqlite3.Error as error:
        raise database.explained(error) from error


def examine(path: Path) -> Contents:
    """Check a copy completely, and return its schema, its time and its numbers of rows. Raise `Conflict` if it is
    damaged, or if a newer version of Timeball wrote it that this one cannot read."""
    with _opened(path) as connection:
        verdicts = connection.execute("PRAGMA integrity_check(5)").fetchall()
        if verdicts != [("ok",)]:
            raise Conflict(f"the database is damaged: {'; '.join(text for (text,) in verdicts)}")
        numbers = dict(connection.execute("SELECT name, value FROM meta"))
        applied = {version for (version,) in connection.execute("SELECT version FROM migrations")}
        if not applied:
            raise Conflict("the database is not a store of Timeball: it has no schema")
        oldest = numbers.get("oldest_schema")
        refuse_newer(applied, oldest, known())
        tables = [name for (name,) in connection.execute(_TABLES)]
        rows = {table: connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0] for table in tables}
        schema = max(applied)
        return Contents(
            schema=schema, oldest_schema=oldest or schema, store_time=int(numbers.get("clock", 0)), rows=rows
        )


def references(path: Path) -> Iterator[str]:
    """Yield the key of each object in object storage that a row of the database refers to."""
    with _opened(path) as connection:
        for (key,) in connection.execute(_REFERENCES):
            if key is not None:
                yield key


def raise_tokens(path: Path) -> None:
    """Raise the last fencing token by `TOKENS_BETWEEN`, so that the restored store issues no token that was issued
    after the backup."""
    with _opened(path) as connection:
        connection.execute("UPDATE meta SET value = value + ? WHERE name = 'token'", (TOKENS_BETWEEN,))


def _refuse_damage(database: Database) -> None:
    """If no server uses the store, raise `Conflict` if its log lost acknowledged commits. The store is not locked for
    that, because a supervisor that starts a server again while the backup is made would find the store in use, and give
    up."""
    if database.holder() is not None:
        return
    damage = log.find_damage(database.file, database.mark.read())
    if damage is not None and database.holder() is None:
        raise Conflict(
            f"{damage.text}. Restore an earlier backup, or start the server once with --accept-damaged-log"
            " (docs/howto/backup.md)"
        )


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise Conflict(f"the database is damaged: {error}") from error


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
