"""Writes in the queue of the thread that writes, and how that thread answers their callers."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from timeball.ports.store.changes import ChangeBatch
from timeball.stores.sql.committed_changes import CommittedChanges
from timeball.stores.sql.driver import Work


class QueuedWrite:
    """A write in the queue of the writer thread, and the future by which its caller gets the result."""

    __slots__ = ("changes", "error", "future", "result", "work")

    def __init__(self, work: Work[Any], future: asyncio.Future[Any]) -> None:
        self.work = work
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None
        self.changes: list[ChangeBatch] = []
        """What the write changed."""

    def answer(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


def give_up(connection: sqlite3.Connection) -> None:
    """Close a connection in any state. Uncommitted changes are rolled back."""
    with contextlib.suppress(sqlite3.Error):
        connection.close()


def wake_in_time() -> None:
    """Reduce the timer slack of this thread. By default Linux may let it oversleep by 50 µs, which is about as long as
    the writer waits for the interpreter after a statement."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{threading.get_native_id()}/timerslack_ns").write_text("1000", "ascii")


def answer_all(jobs: Sequence[QueuedWrite], committed: CommittedChanges) -> None:
    for job in jobs:
        if job.changes and job.error is None:
            committed.add(job.changes)
    for job in jobs:
        job.answer()
