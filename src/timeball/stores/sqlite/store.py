"""SQLite: a store in one folder, for one machine.

One thread owns the writing connection, so writes are executed in the order in which they were queued, and nothing waits
for a lock. The writes that were queued during the last commit, at most `MAX_TOGETHER`, are committed together, each in
a savepoint of its own. Callers get their results after the commit. No time is spent waiting for more writes: the speed
of the disk determines the size of the batches.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeVar, cast

import structlog

from timeball.domain.dispatch.priority import CREDIT
from timeball.domain.errors import Conflict, Unavailable
from timeball.domain.instant import SECOND, Micros
from timeball.ports.metrics import SIZES, Histogram, StoreMetrics, StoreUse
from timeball.ports.store.changes import ChangeListener
from timeball.ports.store.store import MessageListener, StoreKind, WakeupListener
from timeball.ports.store_clock import ClockState
from timeball.stores.sql.committed_changes import CommittedChanges
from timeball.stores.sql.driver import TOO_LONG, Work
from timeball.stores.sql.driver import Tx as SqlTx
from timeball.stores.sql.maintenance.clock import record_acceptance
from timeball.stores.sqlite.checkpoints import Checkpoints
from timeball.stores.sqlite.clock import MARK_TIME, SteadyClock
from timeball.stores.sqlite.disk_space import MIN_FREE_BYTES, DiskSpace
from timeball.stores.sqlite.file import Database
from timeball.stores.sqlite.leases import LastingLeases
from timeball.stores.sqlite.queued_write import QueuedWrite, answer_all, give_up, wake_in_time
from timeball.stores.sqlite.tx import Tx, absorb, begin_again, run, run_or_repeat, transact

T = TypeVar("T")

READERS: Final = 1
SLOW_READERS: Final = 2
SLOW_READ_TIMEOUT: Micros = 10 * SECOND
"""Maximum time of a slow read, including the time in the queue."""
STEPS: Final = 100_000
"""Interval of the timeout check of a slow read, in steps of SQLite's virtual machine: every few milliseconds."""
MAX_TOGETHER: Final = 500
"""Maximum number of writes in one commit, so that the first of them does not wait for thousands that came later."""
_log = structlog.get_logger()


class SqliteStore(LastingLeases):
    """The store on SQLite. `path` is the database file. Its folder is created if needed, and locked against a second
    process.

    `inline` is for the simulator: no threads, all work is done in the calling event loop, nothing is synced to disk,
    and the path may be `:memory:`.
    """

    kind: StoreKind = "sqlite"

    def __init__(
        self,
        path: Path | str,
        *,
        wall: Callable[[], Micros],
        monotonic: Callable[[], Micros],
        inline: bool = False,
        credit: Micros = CREDIT,
        accept_damaged_log: bool = False,
        accept_clock: bool = False,
        min_free: int = MIN_FREE_BYTES,
        may_migrate: bool = True,
    ) -> None:
        """`accept_damaged_log`: if the store has lost acknowledged commits, copy its files and open it, instead of
        refusing to start. `accept_clock`: trust the wall clock, however far it is from the time of the store when it
        was last used. `min_free`: with fewer bytes free on the disk, nothing new is accepted.
        `may_migrate`: see `Database`."""
        self._clock = clock = SteadyClock(wall, monotonic)
        self._database = database = Database(
            path, clock, accept_damaged_log=accept_damaged_log, accept_clock=accept_clock, may_migrate=may_migrate
        )
        space = DiskSpace(database.folder, monotonic, min_free)
        super().__init__(_InlineDriver(database) if inline else _ThreadedDriver(database, monotonic, space), credit)

    def clock_state(self) -> ClockState:
        return self._clock.state()

    def planning_held(self) -> bool:
        return self._clock.is_held()

    def verdicts_until(self) -> Micros:
        return self._database.verdicts_until

    async def accept_clock(self) -> ClockState:
        async def work(tx: SqlTx) -> None:
            record_acceptance(tx, before)  # every transaction absorbs an accepted step

        before = self._clock.state()
        self._clock.accept()
        await self._db.write(work)
        return self._clock.state()


class _NoOthers:
    """A driver that sends no wakeups and no messages: no other server can use this store."""

    def __init__(self, space: DiskSpace | None = None) -> None:
        self.committed = CommittedChanges()
        self._commits = Histogram(SIZES)
        self.metrics = StoreMetrics(commits=self._commits, checkpoints=0)
        self._space = space

    def require_space(self) -> None:
        if self._space is not None:
            self._space.require()

    def use(self) -> StoreUse:
        return StoreUse()

    def watch_changes(self, listener: ChangeListener | None) -> None:
        self.committed.listener = listener

    def listen(self, hint: WakeupListener) -> None:
        pass

    def wake_all(self, topic: str) -> None:
        pass

    def listen_to_servers(self, listener: MessageListener) -> None:
        pass

    def send_to_servers(self, message: str) -> None:
        pass


class _InlineDriver(_NoOthers):
    """A driver that runs all work in the calling event loop."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.now = database.clock
        self._database = database
        self._connection: sqlite3.Connection | None = None
        self._tx: Tx | None = None

    async def open(self) -> None:
        self._database.lock()
        try:
            self._connection = self._database.connect(durable=False, starts=True)
        except BaseException:
            self._database.unlock()
            raise
        self._tx = Tx(self._connection, self.now)

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._database.unlock()

    async def write(self, work: Work[T], *, once: bool = False) -> T:
        return self._transact(work, self.now)

    async def read(self, work: Work[T], *, slow: bool = False, may_lag: bool = False) -> T:
        return self._transact(work, None)

    def _transact(self, work: Work[T], mark: SteadyClock | None) -> T:
        if self._connection is None or self._tx is None:
            raise Unavailable("the store is closed")
        try:
            if mark is None:
                return run(work, self._tx)  # no other thread can write at the same time
            self._tx.changes, self._tx.is_watched = [], self.committed.is_watched
            answer = transact(self._connection, work, self._tx, mark)
            if self._tx.changes:
                self.committed.add(self._tx.changes)
            return answer
        except sqlite3.Error as error:
            raise self._database.explained(error) from error


class _ThreadedDriver(_NoOthers):
    """A driver with one writer thread that commits in groups, and a few reader threads. Slow reads have threads of
    their own."""

    def __init__(self, database: Database, monotonic: Callable[[], Micros], space: DiskSpace) -> None:
        super().__init__(space)
        self.now = database.clock
        self._monotonic = monotonic
        self._database = database
        self._queue: SimpleQueue[QueuedWrite | None] = SimpleQueue()
        self._writer: threading.Thread | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._slow_readers: ThreadPoolExecutor | None = None
        self._checkpoints: Checkpoints | None = None
        self._local = threading.local()
        self._reading: list[sqlite3.Connection] = []

    async def open(self) -> None:
        if self._database.in_memory:
            raise Conflict("a store in memory works inline only")
        self._database.lock()
        try:
            connection = await asyncio.to_thread(self._database.connect, durable=True, starts=True)
            self._database.open_mark(connection)
        except BaseException:
            self._database.unlock()
            raise
        self._readers = ThreadPoolExecutor(READERS, "sqlite-reader")
        self._slow_readers = ThreadPoolExecutor(SLOW_READERS, "sqlite-slow-reader")
        self._checkpoints = checkpoints = Checkpoints(self._database, self.metrics)
        self._writer = threading.Thread(
            target=self._write_until_closed, args=(connection, checkpoints), name="sqlite-writer", daemon=True
        )
        self._writer.start()

    async def close(self) -> None:
        """Commit all queued writes, then close. A caller that is cancelled does not interrupt this, even if no thread
        has begun with it yet."""
        writer, readers, slow, checkpoints = self._writer, self._readers, self._slow_readers, self._checkpoints
        self._writer = self._readers = self._slow_readers = self._checkpoints = None
        if writer is not None and readers is not None and slow is not None and checkpoints is not None:
            loop = asyncio.get_running_loop()
            await asyncio.shield(loop.run_in_executor(None, self._end, writer, (readers, slow), checkpoints))

    def _end(self, writer: threading.Thread, readers: Sequence[ThreadPoolExecutor], checkpoints: Checkpoints) -> None:
        """Close the readers before the writer: if the last connection to be closed may write, SQLite deletes the log,
        and only the database file is left."""
        for each in readers:
            each.shutdown()
        for connection in self._reading:
            give_up(connection)
        self._reading.clear()
        self._queue.put(None)
        writer.join()
        checkpoints.close()
        self._database.unlock()

    async def write(self, work: Work[T], *, once: bool = False) -> T:
        if self._writer is None:
            raise Unavailable("the store is closed")
        began = self._monotonic()
        job = QueuedWrite(work, asyncio.get_running_loop().create_future())
        self._queue.put(job)
        try:
            return cast("T", await job.future)
        finally:
            self.metrics.writes.observe((self._monotonic() - began) / SECOND)

    async def read(self, work: Work[T], *, slow: bool = False, may_lag: bool = False) -> T:
        readers = self._slow_readers if slow else self._readers
        if readers is None:
            raise Unavailable("the store is closed")
        began = self._monotonic()
        until = began + SLOW_READ_TIMEOUT if slow else None
        try:
            return await asyncio.get_running_loop().run_in_executor(readers, self._read, work, until)
        finally:
            self.metrics.reads.observe((self._monotonic() - began) / SECOND)

    def use(self) -> StoreUse:
        return StoreUse(log_bytes=self._database.log_bytes())

    def _read(self, work: Work[T], until: Micros | None) -> T:
        def is_over_time() -> bool:
            return until is not None and (self._slow_readers is None or self._monotonic() > until)

        if is_over_time():
            raise Unavailable(TOO_LONG)
        try:
            tx: Tx | None = getattr(self._local, "tx", None)
            if tx is None:
                self._local.connection = connection = self._database.connect_reader()
                self._reading.append(connection)
                self._local.tx = tx = Tx(connection, self.now)
            connection = self._local.connection
            if until is not None:
                connection.set_progress_handler(is_over_time, STEPS)
            connection.execute("BEGIN")
            try:
                return run(work, tx)
            finally:
                connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise self._database.explained(error) from error

    def _write_until_closed(self, connection: sqlite3.Connection, checkpoints: Checkpoints) -> None:
        """Commit queued writes until the store is closed. The thread survives any error, and every caller gets a
        result."""
        wake_in_time()
        writing: sqlite3.Connection | None = connection
        tx = Tx(connection, self.now)
        open_ = True
        while open_:
            batch: list[QueuedWrite] = []
            job = self._queue.get()
            while job is not None:
                batch.append(job)
                if self._queue.empty() or len(batch) == MAX_TOGETHER:
                    break
                job = self._queue.get()
            else:
                open_ = False
            if not batch:
                continue
            try:
                if writing is None:
                    writing = self._database.connect(durable=True)
                    tx = Tx(writing, self.now)
                self._commit(writing, tx, batch)
            except BaseException as error:
                _log.error("the SQLite connection failed and is closed", error=str(error) or type(error).__name__)
                for job in batch:
                    job.error = job.error or Unavailable(f"SQLite cannot use {self._database.file}: {error}")
                if writing is not None:
                    give_up(writing)
                    writing = None
            self._answer(batch)
            if writing is not None:
                checkpoints.committed(writing.total_changes)
        if writing is not None:
            give_up(writing)

    def _commit(self, connection: sqlite3.Connection, tx: Tx, batch: list[QueuedWrite]) -> None:
        """Run writes in one transaction. If it fails as a whole, each write without an error of its own gets that
        error. Raise if the transaction cannot even be rolled back."""
        try:
            if self.now.absorbable:
                absorb(connection, tx, self.now)
            connection.execute("BEGIN IMMEDIATE")
            for job in batch:
                self._run_one(connection, tx, job, alone=len(batch) == 1)
            marked = self.now()
            connection.execute(MARK_TIME, (marked,))
            connection.execute("COMMIT")
            self._database.mark.set(marked)
            self._commits.observe(len(batch))
        except BaseException as error:
            explained = self._database.explained(error) if isinstance(error, sqlite3.Error) else error
            for job in batch:
                job.error = job.error or explained
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _run_one(self, connection: sqlite3.Connection, tx: Tx, job: QueuedWrite, *, alone: bool) -> None:
        """Run one write of a transaction. If the transaction has several writes, each has a savepoint, so that a failed
        write does not affect the others. Errors of SQLite itself, such as a full disk, end the whole transaction.
        """
        tx.changes, tx.is_watched = job.changes, self.committed.is_watched
        if alone:
            job.result = run_or_repeat(job.work, tx, lambda: begin_again(connection))
            return
        connection.execute("SAVEPOINT work")
        try:
            job.result = run_or_repeat(job.work, tx, lambda: connection.execute("ROLLBACK TO work"))
        except Exception as error:
            # Errors such as a full disk end the whole transaction with all savepoints.
            if not connection.in_transaction or isinstance(error, sqlite3.OperationalError):
                raise
            job.error = error
            connection.execute("ROLLBACK TO work")
        connection.execute("RELEASE work")

    def _answer(self, batch: list[QueuedWrite]) -> None:
        loops: dict[asyncio.AbstractEventLoop, list[QueuedWrite]] = {}
        for job in batch:
            loops.setdefault(job.future.get_loop(), []).append(job)
        for loop, jobs in loops.items():
            try:
                loop.call_soon_threadsafe(answer_all, jobs, self.committed)
            except Exception as error:  # the loop is closed, so no caller waits
                if not loop.is_closed():
                    _log.error("results of writes cannot be delivered", error=str(error) or type(error).__name__)
