"""A fleet of real processes on this machine, in which chaos causes faults: servers, workers and a database. Every
connection between them goes through a proxy of chaos.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from timeball import system
from timeball.chaos import plan, witness
from timeball.chaos.database import FleetDatabase
from timeball.chaos.plan import Planned
from timeball.chaos.proxy import Connect, ProxiedAddress
from timeball.client.async_client import AsyncClient
from timeball.domain.errors import Conflict, TimeballError

SLOTS: Final = 128
PROCESS_TIMEOUT: Final = 60.0
"""Maximum number of seconds until a server is ready, and until all workers have registered."""

SUPERVISE_EVERY: Final = 1.0
"""Seconds between two checks for processes that have ended."""

# The program of a small process that waits until chaos ends, in any way, then kills all processes that chaos started,
# and deletes the folder.
_GUARD: Final = """
cat >/dev/null
for file in "$1"/pids/*; do
  kill -KILL "-$(cat "$file")" 2>/dev/null
done
rm -rf "$1"
"""


class Process:
    """A server or a worker of the fleet: the command `timeball` in a process of its own. `Fleet.suffer` kills it, and
    starts it again under the same name when the fault is over. `Fleet._supervise` starts it again if it ended by
    itself.
    """

    def __init__(self, folder: Path, name: str, command: list[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self.pids: list[int] = []
        self._folder = folder
        self._command = command
        self._environment = environment
        self._popen: subprocess.Popen[bytes] | None = None
        self.wanted = False
        """True if the process is to run: `Fleet` starts it again if it has ended."""

    @property
    def running(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    @property
    def log(self) -> str:
        return (self._folder / f"{self.name}.log").read_text(errors="replace")[-3_000:]

    def start(self) -> None:
        with (self._folder / f"{self.name}.log").open("ab") as log:
            self._popen = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.wanted = True
        self.pids.append(self._popen.pid)
        (self._folder / "pids" / self.name).write_text(str(self._popen.pid))

    def signal(self, number: signal.Signals) -> None:
        if self._popen is not None:
            self._popen.send_signal(number)

    def kill(self) -> None:
        """Kill this process with SIGKILL, but not the processes that it started. It stays ended until `start`."""
        self.wanted = False
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()

    def end(self) -> None:
        """Kill the process and all other processes of its process group."""
        if self._popen is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)
            self._popen.wait()
        (self._folder / "pids" / self.name).unlink(missing_ok=True)


class Fleet:
    """A fleet that `async with` starts. When the block exits, all processes that it started are killed, and its files
    are deleted.
    """

    def __init__(self, *, servers: int, workers: int, store: str | None = None, plant: str | None = None) -> None:
        self._counts = (servers, workers)
        self._store = store
        self._program = ["timeball.chaos.planted", plant] if plant else ["timeball"]
        self._key = system.secret()
        self._stack = contextlib.AsyncExitStack()
        self._links: dict[str, list[ProxiedAddress]] = {}
        self._processes: dict[str, Process] = {}
        self._ports: list[int] = []
        self._restarting = asyncio.Lock()
        self.database: FleetDatabase | None = None
        self.folder = Path()

    @property
    def url(self) -> str:
        """The addresses for clients: those of proxies, so that chaos can cause faults in their connections as well."""
        return _addresses(self._links["client"])

    @property
    def direct_url(self) -> str:
        return ",".join(f"http://127.0.0.1:{port}" for port in self._ports)

    @property
    def key(self) -> str:
        return self._key

    @property
    def worker_pids(self) -> dict[int, str]:
        """The name of each server and worker by its process id, including the ids of processes that were killed."""
        return {pid: process.name for process in self._processes.values() for pid in process.pids}

    async def __aenter__(self) -> Self:
        async with self._stack:
            await self._start()
            self._stack = self._stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    # --- start -----------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        self.folder = _guarded_folder(self._stack)
        connect, address = await self._open_store()
        servers, workers = self._counts
        for name in plan.names("server", servers):
            self._ports.append(_free_port())
            links = await self._link(name, [] if connect is None else [connect])
            store = _through(address, links[0].port) if links else address
            flags = ["--port", str(self._ports[-1]), "--data-dir", str(self.folder / name), "--store", store]
            self._process(name, ["server", *flags], {"TIMEBALL_ADMIN_KEY": self._key})
        for name in plan.names("server", servers):
            await self._until_ready(self._processes[name], self._ports[int(name.rpartition("-")[2]) - 1])
        fronts = [_to_port(port) for port in self._ports]
        await self._link("client", fronts)
        async with AsyncClient(self.direct_url, self._key) as client:
            token = (await client.create_key("worker", "chaos")).key or ""
            for name in plan.names("worker", workers):
                addresses = _addresses(await self._link(name, fronts))
                flags = ["--server", addresses, "--name", name, "--slots", str(SLOTS), "--tasks", witness.__name__]
                self._process(name, ["worker", *flags], {"TIMEBALL_TOKEN": token})
            await self._until_staffed(client, workers)
        supervising = asyncio.create_task(self._supervise())
        self._stack.callback(supervising.cancel)

    async def _supervise(self) -> None:
        """Start processes again that have ended by themselves, as a supervisor does in production. For example, a
        server exits if it finds no database when it starts."""
        while True:
            await asyncio.sleep(SUPERVISE_EVERY)
            for process in self._processes.values():
                if process.wanted and not process.running:
                    process.start()

    async def _open_store(self) -> tuple[Connect | None, str]:
        """Return the function with which a proxy connects to the database, and the address of the database. The
        function is None if no proxy is possible (see `_reach`).
        """
        if self._store is not None:
            return _reach(self._store), self._store
        folder = self.folder / "database"
        folder.mkdir(mode=0o700)
        self.database = await FleetDatabase.create(folder)
        self._stack.push_async_callback(self.database.close)
        self._note_database()
        return self.database.connect, FleetDatabase.address(0)

    def _note_database(self) -> None:
        if self.database is not None and self.database.pid is not None:
            (self.folder / "pids" / "database").write_text(str(self.database.pid))

    async def _link(self, name: str, destinations: list[Connect]) -> list[ProxiedAddress]:
        self._links[name] = [ProxiedAddress(connect) for connect in destinations]
        for link in self._links[name]:
            await link.open()
            self._stack.push_async_callback(link.close)
        return self._links[name]

    def _process(self, name: str, arguments: list[str], more: Mapping[str, str]) -> None:
        process = Process(
            self.folder, name, [sys.executable, "-m", *self._program, *arguments], _environment(self.folder, more)
        )
        self._processes[name] = process
        process.start()
        self._stack.callback(process.end)

    async def _until_ready(self, process: Process, port: int) -> None:
        async with asyncio.timeout(PROCESS_TIMEOUT):
            while not await _answers(port):
                if not process.running:
                    raise Conflict(f"{process.name} ended while it was starting:\n{process.log}")
                await asyncio.sleep(0.05)

    async def _until_staffed(self, client: AsyncClient, workers: int) -> None:
        async with asyncio.timeout(PROCESS_TIMEOUT):
            while len(await client.workers()) < workers:
                for process in self._processes.values():
                    if not process.running:
                        raise Conflict(f"{process.name} ended while it was starting:\n{process.log}")
                await asyncio.sleep(0.05)

    # --- break -----------------------------------------------------------------------------------------------------

    async def suffer(self, fault: Planned) -> None:
        """Cause a fault. Return when it is over."""
        match fault.kind:
            case "kill":
                self._processes[fault.target].kill()
                await asyncio.sleep(fault.lasts)
                self._processes[fault.target].start()
            case "pause":
                self._processes[fault.target].signal(signal.SIGSTOP)
                try:
                    await asyncio.sleep(fault.lasts)
                finally:
                    self._processes[fault.target].signal(signal.SIGCONT)
            case "cut" | "hang" | "delay":
                await self._disturb(fault)
            case "restart":
                await self._restart_database()
            case "command":
                raise AssertionError("faults of the kind 'command' are only for an existing fleet")

    async def _disturb(self, fault: Planned) -> None:
        links = self._links[fault.target]
        for link in links:
            if fault.kind == "cut":
                link.cut()
            elif fault.kind == "hang":
                link.hang()
            else:
                link.delay(fault.weight)
        try:
            await asyncio.sleep(fault.lasts)
        finally:
            for link in links:
                link.heal()

    async def _restart_database(self) -> None:
        assert self.database is not None, "only a database that chaos started can be restarted"
        async with self._restarting:  # a restart may still run when the next one is due
            await self.database.crash()
            await self.database.start()
            self._note_database()


# --- addresses -----------------------------------------------------------------------------------------------------


def _addresses(links: list[ProxiedAddress]) -> str:
    return ",".join(f"http://127.0.0.1:{link.port}" for link in links)


def _to_port(port: int) -> Connect:
    return lambda: asyncio.open_connection("127.0.0.1", port)


def _reach(store: str) -> Connect | None:
    """Return the function with which a proxy connects to the database; None: no proxy is possible, because the address
    has several hosts, or because PostgreSQL's certificate is checked against the host name.
    """
    parts = urlsplit(store)
    options = dict(parse_qsl(parts.query))
    if "," in parts.netloc or "," in options.get("host", "") or options.get("sslmode", "").startswith("verify"):
        return None
    host, port = options.get("host") or parts.hostname or "localhost", parts.port or int(options.get("port", 5432))
    if host.startswith("/"):
        return lambda: asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
    return lambda: asyncio.open_connection(host, port)


def _through(store: str, port: int) -> str:
    """Return the address of the same database through a port of this machine."""
    parts = urlsplit(store)
    options = {name: value for name, value in parse_qsl(parts.query) if name not in ("host", "port")}
    user = parts.netloc.rpartition("@")[0]
    address = f"{user}@127.0.0.1:{port}" if user else f"127.0.0.1:{port}"
    return parts._replace(netloc=address, query=urlencode(options)).geturl()


def is_nearby(store: str | None) -> bool:
    """Return True if the database runs on this machine, so that both have the same clock."""
    if store is None:
        return True
    parts = urlsplit(store)
    host = unquote(dict(parse_qsl(parts.query)).get("host", "") or parts.hostname or "localhost")
    return host.startswith("/") or host in ("localhost", "127.0.0.1", "::1")


# --- the machine ---------------------------------------------------------------------------------------------------


def _guarded_folder(stack: contextlib.AsyncExitStack) -> Path:
    """Return a folder for all files. Also start a small process that outlives chaos and cleans up if chaos cannot."""
    # /tmp, because the path must be short: the path of a socket may have about 100 bytes.
    folder = Path(tempfile.mkdtemp(prefix="timeball-chaos-", dir="/tmp" if os.access("/tmp", os.W_OK) else None))
    folder.chmod(0o711)  # the database may run as another user, which must be able to enter the folder
    for name in ("pids", "home"):
        (folder / name).mkdir()
    guard = subprocess.Popen(
        ["/bin/sh", "-c", _GUARD, "guard", str(folder)], stdin=subprocess.PIPE, start_new_session=True
    )
    stack.callback(guard.communicate)  # `communicate` closes the input of the process and waits for its end
    return folder


def _environment(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process, without the TIMEBALL_* variables of the caller."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TIMEBALL_")}
    return {**inherited, "HOME": str(folder / "home"), **more}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _answers(port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        line = await asyncio.wait_for(reader.readline(), 5)
        writer.close()
    except (OSError, TimeoutError, TimeballError):
        return False
    return b" 200 " in line
