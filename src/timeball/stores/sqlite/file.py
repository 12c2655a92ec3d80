"""The database file of a SQLite store: its lock, its checks, and connections to it."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import structlog

from timeball.domain.errors import Conflict, Unavailable
from timeball.domain.instant import SECOND, Micros, render
from timeball.ports.store_schema import SchemaState
from timeball.stores.sql.dialect import SQLITE
from timeball.stores.sql.driver import TOO_LONG
from timeball.stores.sql.maintenance.clock import keep_leases, set_back, verdicts_until
from timeball.stores.sql.migrate import known, log_applied, migrate, require_current, schema_state
from timeball.stores.sqlite import log, moved_note
from timeball.stores.sqlite.clock import SteadyClock, check_start
from timeball.stores.sqlite.commit_mark import MARK_SUFFIX, CommitMark
from timeball.stores.sqlite.tx import Tx, run, transact

OLDEST_SQLITE: Final = (3, 35, 0)
CHECK_UP_TO: Final = 256 * 1024 * 1024
"""Maximum size of a file that is checked completely when it is opened, at about a second per gigabyte."""
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_MARKED_TIME: Final = "SELECT value FROM meta WHERE name = 'clock'"
_log = structlog.get_logger()


def _named(lock: int) -> str:
    """Return the process id that a lock file names."""
    return os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "unknown"


def is_file(path: Path) -> bool:
    """True if there is such a file. Raise `Unavailable` if this user cannot open its folder."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise Unavailable(
            f"{path} cannot be opened: {error.strerror}; run this command as the user of the server"
        ) from error


def marked_time(connection: sqlite3.Connection) -> Micros | None:
    """Return the time of the store when it was last used; None if it is new."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'meta'").fetchone():
        return None
    (marked,) = connection.execute(_MARKED_TIME).fetchone() or (None,)
    return None if marked is None else int(marked)


def read_schema(connection: sqlite3.Connection) -> SchemaState:
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").fetchone():
        return schema_state((), None)
    applied = [version for (version,) in connection.execute("SELECT version FROM migrations")]
    (oldest,) = connection.execute("SELECT value FROM meta WHERE name = 'oldest_schema'").fetchone() or (None,)
    return schema_state(applied, oldest)


class Database:
    """The file, its lock, and connections to it."""

    def __init__(
        self,
        path: Path | str,
        clock: SteadyClock,
        *,
        accept_damaged_log: bool = False,
        accept_clock: bool = False,
        may_migrate: bool = True,
    ) -> None:
        """`may_migrate`: migrate the database when it is opened. Otherwise opening raises `Conflict` if its schema is
        not current. `accept_damaged_log`: open a store that lost acknowledged commits, instead of refusing to start.
        `accept_clock`: start although the wall clock is far from the time of the store; if it is behind that time, set
        the store back to it."""
        self._may_migrate = may_migrate
        self._accepts_damage = accept_damaged_log
        self.in_memory = str(path) == ":memory:"
        self.file = Path(path)
        self.folder = self.file.parent
        self.clock = clock
        self._accept_clock = accept_clock
        self.verdicts_until: Micros = 0
        self._lock: int | None = None
        self._lock_file = log.beside(self.file, ".lock")
        self.mark = CommitMark(log.beside(self.file, MARK_SUFFIX))

    def log_bytes(self) -> int:
        """Return the size of the write-ahead log."""
        try:
            return log.beside(self.file, "-wal").stat().st_size
        except OSError:
            return 0

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
        try:
            self._examine_log()
        except BaseException:
            self.unlock()
            raise

    def _examine_log(self) -> None:
        """Raise `Conflict` if the store lost acknowledged commits, unless a user accepted that: then copy its files.
        None of the files is changed before."""
        damage = log.find_damage(self.file, self.mark.read())
        if damage is None:
            return
        if not self._accepts_damage:
            raise Conflict(
                f"{damage.text}. Restore a backup (docs/howto/backup.md), or start once with --accept-damaged-log,"
                " which copies the files and starts without what is lost"
            )
        try:
            copy = log.keep_copy(self.file)
        except OSError as error:
            raise Unavailable(f"{damage.text}; the files cannot be copied: {error.strerror}") from error
        _log.error("starting without acknowledged commits that are lost", damage=damage.text, copy=str(copy))

    def unlock(self) -> None:
        self.mark.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def holder(self) -> str | None:
        """Return the id of the process that uses the store now; None if none does."""
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

    def connect(self, *, durable: bool, even_if_moved: bool = False, starts: bool = False) -> sqlite3.Connection:
        """Check and migrate the database, and return the writing connection. Raise `Conflict` if the file is damaged,
        if the store was moved to PostgreSQL, or if its schema does not suit this version. If a server `starts`, raise
        `ClockRefused` if the wall clock is far from the time of the store and no user has accepted it."""
        try:
            connection = self._connect(str(self.file) if not self.in_memory else ":memory:", uri=False)
            try:
                connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA wal_autocheckpoint = 8000")  # `Checkpoints` is usually earlier
                self.check(connection)
                if not even_if_moved and (note := moved_note.read(connection)) is not None:
                    raise moved_note.refusal(self.file, note)
                mark = marked_time(connection)
                if starts and mark is not None and not self._accept_clock:
                    check_start(mark, self.clock.wall())  # before any timestamp is written
                if not self._may_migrate:
                    require_current(read_schema(connection))
                applied = transact(connection, lambda tx: migrate(tx, SQLITE, known()), Tx(connection, self.clock))
                if starts and not self.in_memory:
                    log_applied(applied)
                self._resume(connection, mark, starts=starts and not self.in_memory)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as error:
            raise self.explained(error) from error
        return connection

    def open_mark(self, connection: sqlite3.Connection) -> None:
        """Open the file that records the time of every acknowledged commit. It begins with the time of the last one."""
        (marked,) = connection.execute(_MARKED_TIME).fetchone() or (0,)
        self.mark.open(marked)

    def connect_beside(self) -> sqlite3.Connection:
        """Return a second connection that may write, for a database that is in use."""
        connection = self._connect(str(self.file), uri=False)
        connection.execute("PRAGMA synchronous = FULL")
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
        connection.execute("PRAGMA secure_delete = OFF")  # some distributions enable it
        return connection

    def check(self, connection: sqlite3.Connection) -> None:
        """Raise an error if the file is damaged, before it is written to. A file larger than `CHECK_UP_TO` is not read
        as a whole, so damage in it may remain unnoticed here."""
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if not self.in_memory and self.file.stat().st_size <= CHECK_UP_TO:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise Conflict(self._damaged(verdict))

    def _resume(self, connection: sqlite3.Connection, mark: Micros | None, *, starts: bool) -> None:
        """Start the clock of the store. It begins at `mark`, the time of the store when it was last used, if that is
        later than the wall clock. If a server `starts` with `--accept-clock` and `mark` is more than a second ahead,
        set the store back to the wall clock instead. If a server `starts`, also extend the leases by the time for which
        no server was running (see `keep_leases`)."""
        tx, now = Tx(connection, self.clock), self.clock()
        if starts and mark is not None and self._accept_clock and mark - now > SECOND:
            self.mark.open(now)  # otherwise the later mark would look like lost commits
            self.mark.close()
            done = transact(connection, partial(set_back, mark=mark, now=now), tx, self.clock)
            _log.warning(
                "the store's time was set back to the wall clock, and every schedule planned anew",
                store_time=render(mark),
                wall_clock=render(now),
                **msgspec.structs.asdict(done),
            )
        elif mark is not None and (behind := self.clock.start_from(mark)) > SECOND:
            _log.warning(
                "the wall clock is behind the store's time, which runs at half speed until it has caught up",
                store_time=render(mark),
                wall_clock=render(mark - behind),
            )
        if starts:
            since = self.clock() if mark is None else min(mark, self.clock())
            away = max(0, self.clock() - since)
            transact(connection, partial(keep_leases, away=away, mark=since), tx, self.clock)
        self.verdicts_until = run(verdicts_until, tx)

    def _damaged(self, detail: str) -> str:
        return f"{self.file} is damaged ({detail}); restore it from a backup, or move it away to start afresh"

    def explained(self, error: sqlite3.Error) -> Exception:
        """Return the error of the store port for an error of SQLite. The cause is kept, for a caller that raises it
        elsewhere."""
        known = self._explained(error)
        if known is not error:
            known.__cause__ = error
        return known

    def _explained(self, error: sqlite3.Error) -> Exception:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _DAMAGED:
            return Conflict(self._damaged(str(error)))
        if code == sqlite3.SQLITE_INTERRUPT:
            return Unavailable(TOO_LONG)
        if isinstance(error, sqlite3.OperationalError):
            return Unavailable(f"SQLite cannot use {self.file}: {error}")
        return error
