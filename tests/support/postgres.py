"""A real PostgreSQL server for tests and benchmarks, in a temporary folder, with a Unix socket only.

    with PostgresServer.start() as server:
        dsn = server.create_database()
        ...
        server.restart("immediate")  # as after a crash

Nothing is left behind, however the process that started the server ends: a small guard process waits for that, then
stops the server and removes the folder.
"""

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, Self, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

import asyncpg

from tests.support.postgres_binaries import Binaries, find_binaries
from timeball.chaos.database import as_account, server_account

StopMode = Literal["smart", "fast", "immediate"]
T = TypeVar("T")

SUPERUSER = "timeball"
PRISTINE = "TIMEBALL_TEST_CLUSTER"
"""The variable that names an unused cluster. Copying it takes a fraction of the time of creating one."""
START_SECONDS = 60.0
STOP_SECONDS = 30.0

_STOP_SIGNALS: dict[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,  # waits until all clients have disconnected
    "fast": signal.SIGINT,  # ends the sessions of the clients, then shuts down cleanly
    "immediate": signal.SIGQUIT,  # stops at once; the next start recovers from the write-ahead log, as after a crash
}

# Reads until the process that started the server closes its end of the pipe, or dies.
_GUARD = """
cat >/dev/null
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null)
if [ -n "$pid" ] && kill -QUIT "$pid" 2>/dev/null; then
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL "$pid" 2>/dev/null
fi
rm -rf "$1"
"""


class PostgresError(RuntimeError):
    """Raised if the server does not start, stop or follow as expected. The message ends with its log."""


class PostgresCluster:
    """A running server, known by the DSN of a user with the right to create databases."""

    def __init__(self, admin_dsn: str) -> None:
        self.admin_dsn = admin_dsn

    def dsn(self, dbname: str = "postgres") -> str:
        return urlunsplit(urlsplit(self.admin_dsn)._replace(path=f"/{quote(dbname)}"))

    def create_database(self, *, template: str | None = None) -> str:
        """Create a database with a new name, empty or as a copy of `template`. Return its DSN."""
        name = f"timeball_{uuid.uuid4().hex[:16]}"
        self.execute(f'CREATE DATABASE "{name}"' + (f' TEMPLATE "{template}"' if template else ""))
        return self.dsn(name)

    def drop_database(self, dsn: str) -> None:
        """Drop the database of a DSN, and end the sessions that are open in it."""
        name = urlsplit(dsn).path.removeprefix("/")
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def execute(self, sql: str, dsn: str | None = None) -> None:
        """Run statements as the administrator. May be called from synchronous code and within an event loop."""
        run_apart(_execute(dsn or self.admin_dsn, sql))

    def fetch_value(self, sql: str, dsn: str) -> Any:
        """Return the first value of the first row."""
        return run_apart(_fetch_value(dsn, sql))


class PostgresServer(PostgresCluster):
    """A server that the caller started, and may stop and start again."""

    @classmethod
    def start(
        cls,
        *,
        fsync: bool = False,
        max_connections: int = 100,
        settings: Mapping[str, str] | None = None,
        first: bool = False,
    ) -> Self:
        """Create a cluster and start it. Later clusters are copies of the `first` one, as long as that exists.

        `fsync=False` is for tests that do not simulate a power failure; benchmarks use `fsync=True`, the default of
        PostgreSQL. `settings` are further parameters of postgresql.conf.
        """
        parameters = {
            "listen_addresses": "",
            "unix_socket_permissions": "0700",
            "max_connections": str(max_connections),
            "fsync": "on" if fsync else "off",
            "full_page_writes": "on" if fsync else "off",
            **(settings or {}),
        }
        # Not TMPDIR: the path of a socket may have about 100 bytes, and another user must be able to enter the folder.
        parent = "/tmp" if os.access("/tmp", os.W_OK) else None
        folder = Path(tempfile.mkdtemp(prefix="timeball-pg-", dir=parent))
        guard = _start_guard(folder)
        server = None
        try:
            account = server_account()
            if account is not None:
                os.chown(folder, account.pw_uid, account.pw_gid)
            binaries = _runnable_binaries(find_binaries(), folder, account)
            server = cls(folder, binaries, account, guard, parameters)
            server._create_cluster()
            if first:
                server._keep_pristine()
            server._launch()
        except BaseException:
            if server is not None:
                server.close()
            else:
                _release_guard(guard)
            raise
        return server

    def __init__(
        self,
        folder: Path,
        binaries: Binaries,
        account: pwd.struct_passwd | None,
        guard: subprocess.Popen[bytes],
        parameters: Mapping[str, str],
    ) -> None:
        super().__init__(f"postgresql://{SUPERUSER}@/postgres?host={quote(str(folder), safe='')}")
        self.folder = folder
        self.version = binaries.version
        self._binaries = binaries
        self._account = account
        self._guard = guard
        self._parameters = dict(parameters)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Return the process id of the postmaster."""
        if self._process is None:
            raise PostgresError("the server is stopped")
        return self._process.pid

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> str:
        """Return the log of the server."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server and keep its data. Do nothing if it is stopped."""
        if self._process is None:
            return
        self._process.send_signal(_STOP_SIGNALS[mode])
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise PostgresError(f"no {mode} stop within {STOP_SECONDS:g} s\n{self.log}") from None
        self._process = None

    def restart(self, mode: StopMode = "immediate") -> None:
        """Stop the server in a mode, and start it again on the same data and under the same DSN."""
        self.stop(mode)
        self._launch()

    def standby(self, name: str = "standby") -> "PostgresServer":
        """Start a standby: a copy that follows this server. Every commit of this server waits for it."""
        copy = type(self).__new__(type(self))
        folder = Path(tempfile.mkdtemp(prefix="timeball-pg-", dir=self.folder.parent))
        PostgresServer.__init__(copy, folder, self._binaries, self._account, _start_guard(folder), self._parameters)
        try:
            if self._account is not None:
                os.chown(folder, self._account.pw_uid, self._account.pw_gid)
            copy._copy_cluster(self.folder, name)
            copy._launch()
        except BaseException:
            copy.close()
            raise
        self.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
        self.execute("SELECT pg_reload_conf()")
        deadline = time.monotonic() + START_SECONDS
        while self.fetch_value("SELECT max(sync_state) FROM pg_stat_replication", self.admin_dsn) != "sync":
            if time.monotonic() > deadline:
                raise PostgresError(f"the standby does not follow\n{copy.log}")
            time.sleep(0.05)
        return copy

    def base_backup(self) -> Path:
        """Return a new base backup, in the folder of this server."""
        folder = self.folder / f"base-{time.monotonic_ns()}"
        self.run(
            "pg_basebackup", "-D", folder, "-d", f"host={self.folder} user={SUPERUSER}", "-c", "fast", "-X", "none"
        )
        return folder

    def recovered(self, base: Path, settings: Mapping[str, str]) -> "PostgresServer":
        """Start a server on a base backup, which it recovers with these settings, and wait until it accepts writes."""
        copy = type(self).__new__(type(self))
        folder = Path(tempfile.mkdtemp(prefix="timeball-pg-", dir=self.folder.parent))
        parameters = {**self._parameters, "archive_mode": "off", "hot_standby": "off", **settings}
        PostgresServer.__init__(copy, folder, self._binaries, self._account, _start_guard(folder), parameters)
        try:
            subprocess.run(["cp", "-a", base, copy.data], check=True, timeout=START_SECONDS)
            (copy.data / "recovery.signal").touch()
            if self._account is not None:
                for path in (folder, copy.data / "recovery.signal"):
                    os.chown(path, self._account.pw_uid, self._account.pw_gid)
            copy._launch()
        except BaseException:
            copy.close()
            raise
        return copy

    def run(self, program: str, *arguments: object) -> None:
        """Run one of PostgreSQL's programs as the user of the server."""
        answer = subprocess.run(
            [self._binaries.bindir / program, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=START_SECONDS,
            **as_account(self._account, self.folder),
        )
        if answer.returncode != 0:
            raise PostgresError(f"{program} failed:\n{answer.stdout.decode(errors='replace')}")

    def promote(self) -> None:
        """Make a standby the primary server."""
        self.execute("SELECT pg_promote(wait => true)")

    def _copy_cluster(self, source: Path, name: str) -> None:
        place = f"host={source} user={SUPERUSER} application_name={name}"
        self.run("pg_basebackup", "-D", self.data, "-d", place, "-R", "-c", "fast", "--no-sync")

    def close(self) -> None:
        """Stop the server and remove its folder."""
        try:
            self.stop("fast")
        finally:
            _release_guard(self._guard)  # also kills processes that did not stop
            if self._process is not None:
                self._process.wait()
                self._process = None

    def _keep_pristine(self) -> None:
        pristine = self.folder / "pristine"
        subprocess.run(["cp", "-a", self.data, pristine], check=True, timeout=START_SECONDS)
        os.environ[PRISTINE] = str(pristine)

    def _create_cluster(self) -> None:
        pristine = Path(os.environ.get(PRISTINE) or "/nowhere")
        version = pristine / "PG_VERSION"
        if version.is_file() and version.read_text().strip() == str(self._binaries.major):
            subprocess.run(["cp", "-a", pristine, self.data], check=True, timeout=START_SECONDS)
            return
        options = ["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        try:
            answer = subprocess.run(
                [self._binaries.bindir / "initdb", "-D", self.data, *options],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=START_SECONDS,
                **as_account(self._account, self.folder),
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PostgresError(f"initdb of {self._binaries.bindir} failed: {error}") from error
        if answer.returncode != 0:
            output = answer.stdout.decode(errors="replace")
            raise PostgresError(f"initdb of {self._binaries.bindir} failed:\n{output}")

    def _launch(self) -> None:
        command = [str(self._binaries.bindir / "postgres"), "-D", str(self.data), "-k", str(self.folder)]
        for name, value in self._parameters.items():
            command += ["-c", f"{name}={value}"]
        with (self.folder / "log").open("ab") as log:
            # A session of its own, so that Ctrl-C reaches only the test run, which then stops the server.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **as_account(self._account, self.folder),
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._ready():
            if self._process.poll() is not None:
                self._process = None
                raise PostgresError(f"the server ended while starting\n{self.log}")
            if time.monotonic() > deadline:
                raise PostgresError(f"the server was not ready within {START_SECONDS:g} s\n{self.log}")
            time.sleep(0.02)

    def _ready(self) -> bool:
        """Return True if the status line of postmaster.pid says that the server is ready, as pg_ctl checks it, and if
        the file is from this start.
        """
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"


def _runnable_binaries(binaries: Binaries, folder: Path, account: pwd.struct_passwd | None) -> Binaries:
    """Return the programs, or a copy of them if the account cannot reach them, for example below /root."""
    try:
        answer = subprocess.run(
            [binaries.bindir / "postgres", "--version"],
            capture_output=True,
            check=False,
            **as_account(account, folder),
        )
    except PermissionError:
        pass
    else:
        if answer.returncode == 0:
            return binaries
    copy = binaries.copy_to(folder / "programs")
    if account is not None:
        for path in (folder / "programs", *(folder / "programs").rglob("*")):
            os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)
    return copy


def _start_guard(folder: Path) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except BaseException:
        shutil.rmtree(folder)
        raise


def _release_guard(guard: subprocess.Popen[bytes]) -> None:
    assert guard.stdin is not None
    guard.stdin.close()
    guard.wait(STOP_SECONDS)


async def _execute(dsn: str, sql: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


async def _fetch_value(dsn: str, sql: str) -> Any:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


def run_apart(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on an event loop in a thread of its own, because the caller may be inside a running loop."""
    with ThreadPoolExecutor(max_workers=1) as executor:
        return executor.submit(asyncio.run, coroutine).result()
