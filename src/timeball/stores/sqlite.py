"""SQLite: a store in one folder, for one machine.

One thread owns the writing connection, so the node's order is the database's order and nothing ever waits for a lock.
Whatever queued up while the last commit was in flight is committed together, each work in a savepoint of its own;
everybody is answered after the commit. There is no waiting window: the disk's speed makes the batches.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeVar, cast

import msgspec
import structlog

from timeball.domain.errors import Conflict, Unavailable
from timeball.domain.instant import SECOND, Micros
from timeball.domain.priority import CREDIT
from timeball.ports.store import Hint
from timeball.stores import moved
from timeball.stores.sql.dialect import SQLITE, Compiled, Query
from timeball.stores.sql.driver import TOO_LONG, Row, Work
from timeball.stores.sql.migrate import known, migrate
from timeball.stores.sql.store import SqlStore
from timeball.stores.sql.tables import Table

T = TypeVar("T")

OLDEST_SQLITE: Final = (3, 35, 0)
READERS: Final = 1
SLOW_READERS: Final = 2
PATIENCE: Micros = 10 * SECOND
"""How long a slow read may take, its waiting included."""
STEPS: Final = 100_000
"""How often a slow read is asked whether it is over time, in SQLite's own steps: every few milliseconds."""
MOST_TOGETHER: Final = 500
"""Works in one commit: the first of them should not wait for thousands that came later."""
CHECK_UP_TO: Final = 256 * 1024 * 1024
"""Files up to this size are checked completely when opened, at about a second per gigabyte."""
LONGEST_LEASE: Final = 15 * SECOND
"""What is left of a lease when the store is opened is at most this."""
ROWS_PER_INSERT: Final = (500, 50, 40, 32, 24, 16, 8)
"""Each step of a statement gives the interpreter's lock away and waits to get it back, so rows go in in company: as
many as these numbers allow, the larger first, and what is left as one piece of JSON, which costs each row a third
more."""

_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_MARK_TIME: Final = "INSERT OR REPLACE INTO meta (name, value) VALUES ('clock', ?)"
"""With every commit: no later life of this store begins before anything that is written in it."""
_MARKED_TIME: Final = "SELECT value FROM meta WHERE name = 'clock'"
_CAP_LEASES: Final = "UPDATE workers SET lease_until = ?1 WHERE lease_until > ?1"
_TAKE_TOKENS: Final = "UPDATE meta SET value = value + ? WHERE name = 'token' RETURNING value"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[tuple[Any, ...]]).decode
_log = structlog.get_logger()
_widths: Final[dict[str, int]] = {}
"""How many columns a statement answers: the same for every connection, and dear to find out."""


class SqliteStore(SqlStore):
    """`path` is the database file; its folder is made if need be, and a second process is locked out.

    `inline` is for the simulator: no threads, everything happens in the calling event loop, nothing is synced to disk,
    and the path may be `:memory:`.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        wall: Callable[[], Micros],
        monotonic: Callable[[], Micros],
        inline: bool = False,
        credit: Micros = CREDIT,
    ) -> None:
        clock = SteadyClock(wall, monotonic)
        super().__init__(_InlineDriver(path, clock) if inline else _ThreadedDriver(path, clock, monotonic), credit)


class SteadyClock:
    """The wall clock, kept from running backwards: while it is behind what was already answered, time goes on at
    half the rate of the steady clock, until the wall clock has caught up."""

    def __init__(self, wall: Callable[[], Micros], monotonic: Callable[[], Micros]) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._answered: Micros = wall()
        self._at: Micros = monotonic()

    def __call__(self) -> Micros:
        with self._lock:
            wall, at = self._wall(), self._monotonic()
            if wall >= self._answered:
                self._answered, self._at = wall, at
            else:
                step = (at - self._at) // 2
                self._answered += step
                self._at += 2 * step
            return self._answered

    def start_from(self, mark: Micros) -> Micros:
        """Never answer less than this, which was answered in an earlier life; how far the wall clock is behind it."""
        with self._lock:
            if mark > self._answered:
                self._answered, self._at = mark, self._monotonic()
            return max(0, mark - self._wall())


class _Zeros(dict[str, int]):
    """Parameters for a statement of which only the columns are wanted."""

    def __missing__(self, name: str) -> int:
        return 0


class _Tx:
    """A connection inside a transaction. Its methods never suspend."""

    has_days = False
    may_be_done = False

    def __init__(self, connection: sqlite3.Connection, clock: SteadyClock) -> None:
        self._connection = connection
        self._clock = clock
        self._compiled: dict[tuple[Query, bool], Compiled] = {}
        self._inserts: dict[tuple[str, Table, tuple[str, ...], int], str] = {}

    def careful(self) -> _Tx:
        """The same for a work that may have been committed before."""
        twin = copy(self)
        twin.may_be_done = True
        return twin

    async def fetch(self, query: Query, **parameters: Any) -> list[Row]:
        if query.many:
            with contextlib.suppress(sqlite3.DataError):  # so much that it does not go into one piece
                (piece,) = self._run(query, dict(parameters), whole=True).fetchone()
                return cast("list[Row]", _decode(piece))
        return self._run(query, parameters).fetchall()

    look = fetch

    async def execute(self, query: Query, **parameters: Any) -> int:
        return self._run(query, parameters).rowcount

    async def insert(self, table: Table, rows: Sequence[Row], **same: Any) -> None:
        self._insert("INSERT", table, rows, same)

    async def insert_missing(self, table: Table, rows: Sequence[Row]) -> None:
        self._insert("INSERT OR IGNORE", table, rows, {})

    def _insert(self, verb: str, table: Table, rows: Sequence[Row], same: dict[str, Any]) -> None:
        names, shared, done = tuple(same), tuple(same.values()), 0
        for size in ROWS_PER_INSERT:
            while len(rows) - done >= size:
                values = [*shared, *chain.from_iterable(rows[done : done + size])]
                self._connection.execute(self._insert_sql(verb, table, names, size), values)
                done += size
        left = rows[done:]
        if len(left) == 1 or "bytea" in table.kinds:
            self._connection.executemany(self._insert_sql(verb, table, names, 1), [(*shared, *row) for row in left])
        elif left:
            self._connection.execute(self._insert_sql(verb, table, names, 0), (*shared, _encode(left).decode()))

    def _insert_sql(self, verb: str, table: Table, same: tuple[str, ...], count: int) -> str:
        """For so many rows, or for 0: for as many as there are in a piece of JSON. The values that all rows share come
        first, and once."""
        sql = self._inserts.get((verb, table, same, count))
        if sql is None:
            shared = [f"?{at}" for at in range(1, len(same) + 1)]
            if count:
                row = ", ".join([*shared, *("?" for _ in table.columns)])
                source = f"VALUES {', '.join([f'({row})'] * count)}"
            else:
                row = ", ".join([*shared, *(f"json_extract(value, '$[{at}]')" for at in range(len(table.columns)))])
                source = f"SELECT {row} FROM json_each(?)"
            sql = f"{verb} INTO {table.name} ({', '.join([*same, *table.columns])}) {source}"
            self._inserts[verb, table, same, count] = sql
        return sql

    async def tokens(self, count: int) -> Sequence[int]:
        (last,) = self._connection.execute(_TAKE_TOKENS, (count,)).fetchone()
        return range(last - count + 1, last + 1)

    def _compile(self, query: Query, whole: bool) -> Compiled:
        """Each row that is fetched gives the interpreter's lock away and waits to get it back, so many of them come as
        a whole."""
        compiled = SQLITE.compile(query.text)
        if not whole:
            return compiled
        select = compiled.sql.rstrip(";")
        width = _widths.get(select)
        if width is None:
            found = self._connection.execute(f"SELECT * FROM ({select}) LIMIT 0", _Zeros())
            width = _widths[select] = len(found.description)
        names = ", ".join(f"c{at}" for at in range(width))
        sql = f"WITH found({names}) AS ({select}) SELECT json_group_array(json_array({names})) FROM found"
        return replace(compiled, sql=sql)

    def _run(self, query: Query, parameters: dict[str, Any], *, whole: bool = False) -> sqlite3.Cursor:
        compiled = self._compiled.get((query, whole))
        if compiled is None:
            compiled = self._compiled[query, whole] = self._compile(query, whole)
        for name in compiled.batches:
            parameters[name] = _encode(parameters[name]).decode()
        if compiled.asks_time:
            parameters["now"] = self._clock()
        return self._connection.execute(compiled.sql, parameters)


def _named(lock: int) -> str:
    """The process that a lock file names."""
    return os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "unknown"


class Database:
    """The file, its lock, and connections to it."""

    def __init__(self, path: Path | str, clock: SteadyClock) -> None:
        self.in_memory = str(path) == ":memory:"
        self.file = Path(path)
        self.folder = self.file.parent
        self.clock = clock
        self._lock: int | None = None
        self._lock_file = self.file.with_name(f"{self.file.name}.lock")

    def lock(self) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise Conflict(f"SQLite {sqlite3.sqlite_version} is too old; Timeball needs 3.35 or newer")
        if self.in_memory:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(f"cannot use the data folder {self.folder}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = _named(lock)
            os.close(lock)
            raise Conflict(
                f"the data folder {self.folder} is in use by process {holder}; stop that one first, "
                "or use another folder"
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        self._lock = lock

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def holder(self) -> str | None:
        """The process that uses the store now."""
        try:
            lock = os.open(self._lock_file, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return _named(lock)
        finally:
            os.close(lock)
        return None

    def connect(self, *, durable: bool, even_if_moved: bool = False) -> sqlite3.Connection:
        """The writing connection, on a database that is whole and up to date, and did not go to another place."""
        try:
            connection = self._connect(str(self.file) if not self.in_memory else ":memory:", uri=False)
            try:
                connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA wal_autocheckpoint = 4000")
                self._check(connection)
                if not even_if_moved and (note := moved.read(connection)) is not None:
                    raise moved.refusal(self.file, note)
                transact(connection, lambda tx: migrate(tx, SQLITE, known()), _Tx(connection, self.clock))
                self._resume(connection)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as error:
            raise self.explained(error) from error
        return connection

    def connect_reader(self) -> sqlite3.Connection:
        return self._connect(f"{self.file.absolute().as_uri()}?mode=ro", uri=True)

    def _connect(self, name: str, *, uri: bool) -> sqlite3.Connection:
        connection = sqlite3.connect(
            name, isolation_level=None, check_same_thread=False, cached_statements=512, uri=uri, timeout=10
        )
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute("PRAGMA mmap_size = 1073741824")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA foreign_keys = OFF")
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        """Refuse a damaged file before anything is written to it."""
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if not self.in_memory and self.file.stat().st_size <= CHECK_UP_TO:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise Conflict(self._damaged(verdict))

    def _resume(self, connection: sqlite3.Connection) -> None:
        """Go on from the time this store had come to, whatever the wall clock says now."""
        marked = connection.execute(_MARKED_TIME).fetchone()
        behind = self.clock.start_from(marked[0]) if marked else 0
        if behind > SECOND:
            _log.warning("the clock was set back; until it has caught up, time goes on at half speed", micros=behind)
        connection.execute(_CAP_LEASES, (self.clock() + LONGEST_LEASE,))

    def _damaged(self, detail: str) -> str:
        return f"{self.file} is damaged ({detail}); restore it from a backup, or move it away to start afresh"

    def explained(self, error: sqlite3.Error) -> Exception:
        """What went wrong, in the words of the port."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _DAMAGED:
            return Conflict(self._damaged(str(error)))
        if code == sqlite3.SQLITE_INTERRUPT:
            return Unavailable(TOO_LONG)
        if isinstance(error, sqlite3.OperationalError):
            return Unavailable(f"SQLite cannot use {self.file}: {error}")
        return error


def run(work: Work[T], tx: _Tx) -> T:
    """Run a transaction's coroutine to its end: nothing it may await suspends."""
    coroutine = cast("Coroutine[Any, Any, T]", work(tx))
    try:
        coroutine.send(None)
    except StopIteration as finished:
        return cast("T", finished.value)
    coroutine.close()
    raise RuntimeError("a store transaction awaited something other than its Tx")


def run_or_repeat(work: Work[T], tx: _Tx, undo: Callable[[], object]) -> T:
    """Run it; and once more, looking at what is there, if an id is there already: it may have been committed before."""
    try:
        return run(work, tx)
    except sqlite3.IntegrityError:
        undo()
        return run(work, tx.careful())


def _begin_again(connection: sqlite3.Connection) -> None:
    connection.execute("ROLLBACK")
    connection.execute("BEGIN IMMEDIATE")


def transact(connection: sqlite3.Connection, work: Work[T], tx: _Tx, mark: SteadyClock | None = None) -> T:
    connection.execute("BEGIN IMMEDIATE")
    try:
        answer = run_or_repeat(work, tx, lambda: _begin_again(connection))
        if mark is not None:
            connection.execute(_MARK_TIME, (mark(),))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return answer


class _NoOthers:
    """Nobody else can be on this store, so there is nobody to give a hint to."""

    def listen(self, hint: Hint) -> None:
        pass

    def shout(self, topic: str) -> None:
        pass


class _InlineDriver(_NoOthers):
    """Runs everything in the calling event loop."""

    def __init__(self, path: Path | str, clock: SteadyClock) -> None:
        self.now = clock
        self._database = Database(path, clock)
        self._connection: sqlite3.Connection | None = None
        self._tx: _Tx | None = None

    async def open(self) -> None:
        self._database.lock()
        try:
            self._connection = self._database.connect(durable=False)
        except BaseException:
            self._database.unlock()
            raise
        self._tx = _Tx(self._connection, self.now)

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
                return run(work, self._tx)  # nobody else can write meanwhile
            return transact(self._connection, work, self._tx, mark)
        except sqlite3.Error as error:
            raise self._database.explained(error) from error


class _Job:
    """A work in the writer's queue and whom to answer."""

    __slots__ = ("error", "future", "result", "work")

    def __init__(self, work: Work[Any], future: asyncio.Future[Any]) -> None:
        self.work = work
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None

    def answer(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


def _give_up(connection: sqlite3.Connection) -> None:
    """Close a connection in whatever state it is. What it had not committed is rolled back by that."""
    with contextlib.suppress(sqlite3.Error):
        connection.close()


def _answer_all(jobs: Sequence[_Job]) -> None:
    for job in jobs:
        job.answer()


class _ThreadedDriver(_NoOthers):
    """One writer thread with group commit, and a few readers: those for slow reads are apart from the others."""

    def __init__(self, path: Path | str, clock: SteadyClock, monotonic: Callable[[], Micros]) -> None:
        self.now = clock
        self._monotonic = monotonic
        self._database = Database(path, clock)
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._writer: threading.Thread | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._slow_readers: ThreadPoolExecutor | None = None
        self._local = threading.local()
        self._reading: list[sqlite3.Connection] = []

    async def open(self) -> None:
        if self._database.in_memory:
            raise Conflict("a store in memory works inline only")
        self._database.lock()
        try:
            connection = await asyncio.to_thread(self._database.connect, durable=True)
        except BaseException:
            self._database.unlock()
            raise
        self._readers = ThreadPoolExecutor(READERS, "sqlite-reader")
        self._slow_readers = ThreadPoolExecutor(SLOW_READERS, "sqlite-slow-reader")
        self._writer = threading.Thread(
            target=self._write_until_closed, args=(connection,), name="sqlite-writer", daemon=True
        )
        self._writer.start()

    async def close(self) -> None:
        """Everything that was queued is committed first."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            self._queue.put(None)
            await asyncio.to_thread(writer.join)
        readers = [each for each in (self._readers, self._slow_readers) if each is not None]
        self._readers = self._slow_readers = None
        for each in readers:
            await asyncio.to_thread(each.shutdown)
        for connection in self._reading:
            connection.close()
        self._reading.clear()
        self._database.unlock()

    async def write(self, work: Work[T], *, once: bool = False) -> T:
        if self._writer is None:
            raise Unavailable("the store is closed")
        job = _Job(work, asyncio.get_running_loop().create_future())
        self._queue.put(job)
        return cast("T", await job.future)

    async def read(self, work: Work[T], *, slow: bool = False, may_lag: bool = False) -> T:
        readers = self._slow_readers if slow else self._readers
        if readers is None:
            raise Unavailable("the store is closed")
        until = self._monotonic() + PATIENCE if slow else None
        return await asyncio.get_running_loop().run_in_executor(readers, self._read, work, until)

    def _read(self, work: Work[T], until: Micros | None) -> T:
        def is_over_time() -> bool:
            return until is not None and (self._slow_readers is None or self._monotonic() > until)

        if is_over_time():
            raise Unavailable(TOO_LONG)
        try:
            tx: _Tx | None = getattr(self._local, "tx", None)
            if tx is None:
                self._local.connection = connection = self._database.connect_reader()
                self._reading.append(connection)
                self._local.tx = tx = _Tx(connection, self.now)
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

    def _write_until_closed(self, connection: sqlite3.Connection) -> None:
        """The writer's life. Whatever happens, it goes on and everybody is answered."""
        writing: sqlite3.Connection | None = connection
        tx = _Tx(connection, self.now)
        open_ = True
        while open_:
            batch: list[_Job] = []
            job = self._queue.get()
            while job is not None:
                batch.append(job)
                if self._queue.empty() or len(batch) == MOST_TOGETHER:
                    break
                job = self._queue.get()
            else:
                open_ = False
            if not batch:
                continue
            try:
                if writing is None:
                    writing = self._database.connect(durable=True)
                    tx = _Tx(writing, self.now)
                self._commit(writing, tx, batch)
            except BaseException as error:
                _log.error("the database's connection is given up", error=str(error) or type(error).__name__)
                for job in batch:
                    job.error = job.error or Unavailable(f"SQLite cannot use {self._database.file}: {error}")
                if writing is not None:
                    _give_up(writing)
                    writing = None
            self._answer(batch)
        if writing is not None:
            _give_up(writing)

    def _commit(self, connection: sqlite3.Connection, tx: _Tx, batch: list[_Job]) -> None:
        """Run works in one transaction. If that fails as a whole, everybody in it hears so. Raises if not even that
        can be rolled back."""
        try:
            connection.execute("BEGIN IMMEDIATE")
            for job in batch:
                self._run_one(connection, tx, job, alone=len(batch) == 1)
            connection.execute(_MARK_TIME, (self.now(),))
            connection.execute("COMMIT")
        except BaseException as error:
            told = self._database.explained(error) if isinstance(error, sqlite3.Error) else error
            for job in batch:
                job.error = job.error or told
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    @staticmethod
    def _run_one(connection: sqlite3.Connection, tx: _Tx, job: _Job, *, alone: bool) -> None:
        """Run one work; unless it is alone, its failure is its own."""
        if alone:
            job.result = run_or_repeat(job.work, tx, lambda: _begin_again(connection))
            return
        connection.execute("SAVEPOINT work")
        try:
            job.result = run_or_repeat(job.work, tx, lambda: connection.execute("ROLLBACK TO work"))
        except Exception as error:
            # Full disk and the like end the whole transaction, savepoints and all.
            if not connection.in_transaction or isinstance(error, sqlite3.OperationalError):
                raise
            job.error = error
            connection.execute("ROLLBACK TO work")
        connection.execute("RELEASE work")

    @staticmethod
    def _answer(batch: list[_Job]) -> None:
        loops: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        for job in batch:
            loops.setdefault(job.future.get_loop(), []).append(job)
        for loop, jobs in loops.items():
            try:
                loop.call_soon_threadsafe(_answer_all, jobs)
            except Exception as error:  # the loop is closed, and nobody in it waits any more
                if not loop.is_closed():
                    _log.error("callers of the store cannot be answered", error=str(error) or type(error).__name__)
