"""The worker processes of one command: `timeball worker --processes N` and `timeball up --processes N`.

The settings of the command hold for all its processes together: each gets its share of the slots, the CPUs and the
memory, so that more processes never take more of the machine. Each is a worker of its own, NAME-1, NAME-2 and so on.

With `timeball up`, the server gets a process of its own, and the workers reach it over HTTP.
"""

from __future__ import annotations

import contextlib
from dataclasses import fields, replace
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from timeball.bootstrap.supervisor import Supervised, Supervisor
from timeball.config import UpConfig, WorkerConfig, WorkerRoleConfig
from timeball.telemetry import logging
from timeball.worker.worker import Worker

ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}

W = TypeVar("W", bound=WorkerRoleConfig)


class ServerReady(Struct):
    """What the server of `timeball up --processes N` sends to the workers of the same command when it is ready."""

    address: str
    token: str


def supervised(config: WorkerConfig | UpConfig, *, server: bool = False) -> int | Supervised | None:
    """Start the processes of the command and return its exit code when they have ended. In each of the processes,
    return what the supervisor gives to it. None: the command has one process only, and nothing was started.
    """
    if config.processes == 1:
        return None
    names = [f"{config.name}-{number}" for number in range(1, config.processes + 1)]
    found = Supervisor(names, "server" if server else None).run()
    if isinstance(found, Supervised):
        logging.configure(config.log_level, config.log_format, process=found.name)
    return found


def share_of(config: W, number: int) -> W:
    """Return the settings of the process with this number, from 1 on: its name, its port for metrics, and its share of
    the slots, the CPUs and the memory of the command."""
    count = config.processes
    memory, slots, listen = config.memory_mb, config.slots, config.metrics_listen
    return replace(
        config,
        name=f"{config.name}-{number}",
        slots=None if slots is None else slots // count + (number <= slots % count),
        cpu=config.cpu / count,
        memory_mb=None if memory is None else memory // count,
        metrics_listen=None if not listen or not listen[1] else (listen[0], listen[1] + number - 1),
    )


def worker_of(config: UpConfig, message: str) -> WorkerConfig:
    """Return the settings of the workers of `timeball up`, which connect to the server that sent `message`."""
    ready = msgspec.json.decode(message, type=ServerReady)
    shared = {found.name: getattr(config, found.name) for found in fields(WorkerConfig) if hasattr(config, found.name)}
    return WorkerConfig(**{**shared, "servers": (ready.address,), "token": ready.token, "ca": None})


def server_ready(address: str, host: str, token: str) -> str:
    """Return the message `ServerReady` of a server that listens on `host`. If `host` means all addresses, the workers
    use the loopback address."""
    return msgspec.json.encode(ServerReady(address.replace(host, ANY_ADDRESS.get(host, host)), token)).decode()


async def report_session(worker: Worker, supervised: Supervised) -> None:
    """Tell the supervisor when a server has accepted the worker."""
    await worker.registered.wait()
    with contextlib.suppress(OSError):  # the supervisor is gone
        supervised.is_ready()
