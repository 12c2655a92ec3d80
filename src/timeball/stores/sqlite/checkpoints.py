"""Moves what SQLite committed from its log to its place in the database, beside the writer.

SQLite would have the writer do it, every few thousand pages: then all others wait for it, and for the disk twice.
"""

from __future__ import annotations

import sqlite3
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import structlog

from timeball.stores.sqlite.file import Database

EVERY: Final = 24_000
"""Rows that are written before the log is worth moving: when jobs come and go, about a third of what makes the writer
do it after all."""
NOT_MOVED: Final = "the log of the database could not be moved into it"
_log = structlog.get_logger()


class Checkpoints:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._thread = ThreadPoolExecutor(1, "sqlite-checkpoints")
        self._connection: sqlite3.Connection | None = None
        self._moving: Future[None] | None = None
        self._written = 0
        """When the log was moved last."""

    def committed(self, written: int) -> None:
        """The writer committed, and has written so many rows in its life. Nothing that goes wrong here stops it."""
        if self._written <= written < self._written + EVERY or (self._moving is not None and not self._moving.done()):
            return
        self._written = written
        try:
            self._moving = self._thread.submit(self._move)
        except RuntimeError as error:  # such as: no thread can be had
            _log.warning(NOT_MOVED, error=str(error))

    def close(self) -> None:
        """After the writer's end."""
        self._thread.shutdown()
        if self._connection is not None:
            self._connection.close()

    def _move(self) -> None:
        try:
            if self._connection is None:
                self._connection = self._database.connect_beside()
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:  # then the writer does it, or has its own opinion of the disk
            _log.warning(NOT_MOVED, error=str(error))
