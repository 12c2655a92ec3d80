"""The database of a Timeball, queried directly: the benchmarks do not rely on answers of the system that
they measure.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import asyncpg


class Database(Protocol):
    def rows(self, sql: str) -> list[tuple[Any, ...]]: ...

    def execute(self, sql: str) -> None: ...


@contextlib.contextmanager
def sqlite(path: Path, *, writable: bool = False) -> Iterator[Database]:
    mode = "rw" if writable else "ro"
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode={mode}", uri=True, isolation_level=None)) as connection:
        yield _Sqlite(connection)


@contextlib.contextmanager
def postgresql(dsn: str) -> Iterator[Database]:
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(dsn, statement_cache_size=0))
        try:
            yield _Postgresql(runner, connection)
        finally:
            runner.run(connection.close())


class _Sqlite:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql).fetchall()

    def execute(self, sql: str) -> None:
        self._connection.execute(sql)


class _Postgresql:
    def __init__(self, runner: asyncio.Runner, connection: asyncpg.Connection) -> None:
        self._runner = runner
        self._connection = connection

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._runner.run(self._connection.fetch(sql))]

    def execute(self, sql: str) -> None:
        self._runner.run(self._connection.execute(sql))
