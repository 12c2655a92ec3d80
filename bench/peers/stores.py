"""The servers of the peers, each started for one measurement in a temporary folder."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import asyncpg

from bench.peers.install import redis_server
from tests.support.postgres import PostgresServer


class Store(Protocol):
    url: str
    """The address for the program of the peer, in its environment as PEER_STORE."""
    pid: int | None
    """The process id of the server; None: it has no process of its own."""

    def settle(self) -> None:
        """Do what a store does by itself after some time: update statistics, write a checkpoint."""

    def ask(self, question: str) -> int: ...


@contextlib.contextmanager
def store(kind: str, folder: Path, fsync: str) -> Iterator[Store]:
    match kind:
        case "redis":
            with _redis(folder, fsync) as redis:
                yield redis
        case "postgresql":
            with PostgresServer.start(fsync=True) as server, asyncio.Runner() as runner:
                dsn = server.create_database()
                connection = runner.run(asyncpg.connect(dsn))
                try:
                    yield _Postgresql(dsn, server.pid, runner, connection)
                finally:
                    runner.run(connection.close())
        case "sqlite":
            yield _Sqlite(folder / "timeball.db")
        case _:
            yield _Memory()


class _Postgresql:
    def __init__(self, url: str, pid: int, runner: asyncio.Runner, connection: asyncpg.Connection) -> None:
        self.url = url
        self.pid = pid
        self._runner = runner
        self._connection = connection

    def settle(self) -> None:
        self._runner.run(self._connection.execute("VACUUM ANALYZE"))
        self._runner.run(self._connection.execute("CHECKPOINT"))

    def ask(self, question: str) -> int:
        return int(self._runner.run(self._connection.fetchval(question)))


class _Sqlite:
    pid = None

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self._path = path

    def settle(self) -> None:
        pass

    def ask(self, question: str) -> int:
        with contextlib.closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)) as database:
            return int(database.execute(question).fetchone()[0])


class _Memory:
    url = ""
    pid = None

    def settle(self) -> None:
        pass

    def ask(self, question: str) -> int:
        raise NotImplementedError("the memory of another process cannot be read")


@contextlib.contextmanager
def _redis(folder: Path, fsync: str) -> Iterator[_Redis]:
    path = folder / "redis.sock"
    kept = ["--appendonly", "yes", "--appendfsync", fsync, "--save", "", "--maxmemory-policy", "noeviction"]
    command = [redis_server(), "--port", "0", "--unixsocket", path, "--dir", folder, *kept]
    with (folder / "redis.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield _Redis(path, process.pid, _connected(path, process))
    finally:
        process.terminate()
        process.wait()


def _connected(path: Path, process: subprocess.Popen[bytes]) -> socket.socket:
    while process.poll() is None:
        connection = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):
            connection.connect(str(path))
            return connection
        connection.close()
        time.sleep(0.02)
    raise SystemExit(f"Redis did not start: {(path.parent / 'redis.log').read_text()}")


class _Redis:
    def __init__(self, path: Path, pid: int, connection: socket.socket) -> None:
        self.url = str(path)
        self.pid = pid
        self._connection = connection
        self._answers = connection.makefile("rb")

    def settle(self) -> None:
        pass

    def ask(self, question: str) -> int:
        """Send a command whose answer is a number, in the inline form of the protocol."""
        self._connection.sendall(question.encode() + b"\r\n")
        answer = self._answers.readline()
        if not answer.startswith(b":"):
            raise RuntimeError(f"{question}: {answer.decode().strip()}")
        return int(answer[1:])


def scratch() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder. Not below TMPDIR: the path of a Unix socket may have about 100 bytes."""
    return tempfile.TemporaryDirectory(prefix="peers-", dir="/tmp")
