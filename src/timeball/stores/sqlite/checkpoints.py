"""Checkpoints: copies committed pages from the write-ahead log into the SQLite database, in a thread of its own.

By default the writer would do this every few thousand pages, while all other writes wait for it and for the disk.
"""

from __future__ import annotations

import sqlite3
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import structlog

from timeball.ports.metrics import StoreMetrics
from timeball.stores.sqlite.file import Database

EVERY: Final = 24_000
"""Number of written rows after which a checkpoint is made. In normal use, SQLite would make a checkpoint in the writer
thread only after about three times as many rows."""
NOT_MOVED: Final = "the checkpoint of the SQLite log failed"
_log = structlog.get_logger()


class Checkpoints:
    def __init__(self, database: Database, metrics: StoreMetrics) -> None:
        self._database = database
        self._metrics = metrics
        self._thread = ThreadPoolExecutor(1, "sqlite-checkpoints")
        self._connection: sqlite3.Connection | None = None
        self._moving: Future[None] | None = None
        self._written = 0
        """The number of written rows at the last checkpoint."""

    def committed(self, written: int) -> None:
        """Start a checkpoint if `EVERY` rows were written since the last one, and no checkpoint is running. `written`
        is the number of rows that the connection of the writer has written in all. An error is logged, and never stops
        the writer."""
        if self._written <= written < self._written + EVERY or (self._moving is not None and not self._moving.done()):
            return
        self._written = written
        try:
            self._moving = self._thread.submit(self._move)
        except RuntimeError as error:  # for example if no thread can be started
            _log.warning(NOT_MOVED, error=str(error))

    def close(self) -> None:
        """Close the connection, after the writer has ended."""
        self._thread.shutdown()
        if self._connection is not None:
            self._connection.close()

    def _move(self) -> None:
        try:
            if self._connection is None:
                self._connection = self._database.connect_beside()
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._metrics.checkpoints = (self._metrics.checkpoints or 0) + 1
        except sqlite3.Error as error:  # then the writer makes the checkpoint, or reports the error of the disk
            _log.warning(NOT_MOVED, error=str(error))
