"""Puts the parts together: the only module that knows all adapters."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import structlog
import uvicorn
import uvloop

import timeball
from timeball import registry, system
from timeball.api.app import create_app
from timeball.api.express import Express
from timeball.client.dispatch import HttpDispatch
from timeball.config import CrewConfig, MigrateConfig, ServerConfig, UpConfig, WorkerConfig, remember
from timeball.domain import ids
from timeball.domain.errors import Conflict, Unavailable
from timeball.domain.instant import SECOND
from timeball.executors.guard import ProcessGuard
from timeball.executors.http import HttpExecutor
from timeball.executors.process import Processes
from timeball.executors.python import PythonExecutor
from timeball.executors.python_process import PythonProcesses
from timeball.executors.script import ScriptExecutor
from timeball.executors.shell import ShellExecutor
from timeball.operation.search_archive import Archive
from timeball.ports.dispatch import Dispatch, Hello
from timeball.ports.executor import Attempt, Executor
from timeball.ports.moving import Move, Report
from timeball.ports.store import Key, Store
from timeball.service.archivist import DayArchivist
from timeball.service.server import Server
from timeball.service.worker import Worker
from timeball.stores.moving.move import Mover
from timeball.stores.postgres import PostgresStore
from timeball.stores.sqlite import SqliteStore
from timeball.telemetry import logging

DEFAULT_TENANT: Final = "default"
LAST_ANSWERS: Final = 5
"""Seconds that a stopping server gives the answers under way to reach their clients."""
FAREWELL: Final = 1.0
"""Seconds for which a stopping server still listens, and says that it is not ready: for whoever sends it requests."""
_log = structlog.get_logger()


def run_up(config: UpConfig) -> int:
    """A server and a worker in one process, until a signal."""
    logging.configure(config.log_level, config.log_format)
    return uvloop.run(_up(config))


def run_server(config: ServerConfig) -> int:
    logging.configure(config.log_level, config.log_format)
    return uvloop.run(_server(config))


def run_worker(config: WorkerConfig) -> int:
    logging.configure(config.log_level, config.log_format)
    return uvloop.run(_worker(config))


def run_migrate(config: MigrateConfig, report: Report) -> Move:
    """Everything in the embedded store to PostgreSQL."""
    return asyncio.run(_mover(config).move(report))


def rehearse_migrate(config: MigrateConfig) -> Move:
    """What would be moved."""
    return asyncio.run(_mover(config).rehearse())


def take_back(config: MigrateConfig) -> None:
    """Let an embedded store that was moved be used again."""
    _mover(config).take_back()


def _mover(config: MigrateConfig) -> Mover:
    return Mover(config.source, config.target or "", system.wall, system.monotonic, system.dice())


async def _up(config: UpConfig) -> int:
    stop = _StopSignals()
    async with contextlib.AsyncExitStack() as stack:
        server, address, key = await _start_server(config, stack, stop)
        await _start_worker(config, server.desk, stack, stop)
        _tune_interpreter()
        _greet(address, key, config.admin_key_file)
        await stop.first.wait()
        _log.info("stopping: letting runs finish; interrupt again to stop at once")
    return 0


async def _server(config: ServerConfig) -> int:
    stop = _StopSignals()
    async with contextlib.AsyncExitStack() as stack:
        _, address, key = await _start_server(config, stack, stop)
        _tune_interpreter()
        _greet(address, key, config.admin_key_file)
        await stop.first.wait()
    return 0


async def _worker(config: WorkerConfig) -> int:
    stop = _StopSignals()
    async with contextlib.AsyncExitStack() as stack:
        home = system.dice().randrange(len(config.servers))
        dispatch = await stack.enter_async_context(HttpDispatch(config.servers, config.token, home=home))
        worker = await _start_worker(config, dispatch, stack, stop, alone=True)
        _tune_interpreter()
        _log.info("worker is up", name=config.name, slots=config.slots, servers=", ".join(config.servers))
        stopping = asyncio.create_task(stop.first.wait())
        ended = asyncio.create_task(worker.wait())
        await asyncio.wait([stopping, ended], return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            ended.result()
        _log.info("stopping: letting runs finish; interrupt again to stop at once")
    return 0


def _tune_interpreter() -> None:
    """Once all is up. What is there now stays, so the garbage collector need not look at it again; and it need not look
    after every 700 objects, which a batch of jobs makes many times over: almost all of them go without it.

    The event loop and the thread that writes to the store take turns several times per commit. Who waits gets the
    interpreter after 5 ms by default, which is longer than a commit takes."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)
    sys.setswitchinterval(0.001)


# --- the server ---------------------------------------------------------------------------------------------------


async def _start_server(
    config: ServerConfig, stack: contextlib.AsyncExitStack, stop: _StopSignals
) -> tuple[Server, str, str | None]:
    """The server with its API listening; its address; and the admin key, if it was made just now."""
    sockets = [stack.enter_context(_listening(config.host, config.port))]
    config.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = await stack.enter_async_context(_open(config))
    key, is_new = _admin_key(config)
    await _allow_admin(store, key)
    archive, archivist = await _archive(config, store, stack)
    server = Server(
        store,
        system.SystemClock(),
        system.dice(),
        keep_for=config.retention,
        archivist=archivist,
        archive=archive,
    )
    server.start()
    stack.push_async_callback(server.stop)
    stopping = asyncio.Event()
    app = create_app(
        server.context,
        server.desk,
        ready=lambda: _ready(server, stopping),
        new_secret=system.secret,
        version=timeball.__version__,
        stopping=stopping.is_set,
    )
    http = _Http(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            http=Express,
            ws="none",
            proxy_headers=False,  # only an address in an answer needs one of them, and finds it
            server_header=False,
            timeout_graceful_shutdown=LAST_ANSWERS,
        )
    )
    serving = asyncio.create_task(http.serve(sockets))
    stack.push_async_callback(_stop_http, http, serving, server, stopping, stop)
    host, port = sockets[0].getsockname()[:2]
    remember(config.data_dir, port)
    return server, f"http://{host}:{port}", key if is_new else None


@contextlib.asynccontextmanager
async def _open(config: ServerConfig) -> AsyncIterator[Store]:
    store: Store
    if config.sqlite_path is not None:
        store = SqliteStore(
            config.sqlite_path, wall=system.wall, monotonic=system.monotonic, credit=config.priority_credit
        )
    else:
        store = PostgresStore(
            config.store,
            monotonic=system.monotonic,
            direct=config.store_direct,
            replica=config.read_store,
            credit=config.priority_credit,
        )
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def _archive(
    config: ServerConfig, store: Store, stack: contextlib.AsyncExitStack
) -> tuple[Archive | None, DayArchivist | None]:
    """Where history goes to, if it goes anywhere, and who brings it there."""
    if config.archive is None:
        return None, None
    from timeball.objects.bucket import open_objects  # 25 ms that others need not pay

    objects = open_objects(config.archive)
    archivist = DayArchivist(store, objects, system.SystemClock())
    stack.push_async_callback(archivist.close)
    return Archive(objects), archivist


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise Conflict(
                f"cannot listen on {host} port {port}: {error.strerror}; stop what uses it, or choose another --port"
            ) from None
        listener.listen(2_048)
        listener.setblocking(False)
        yield listener
    finally:
        listener.close()


class _Http(uvicorn.Server):
    """Leaves the signals to us: jobs are to finish before the server goes."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _stop_http(
    http: _Http, serving: asyncio.Task[None], server: Server, stopping: asyncio.Event, stop: _StopSignals
) -> None:
    """Send everybody elsewhere, then let answers under way end, for a while; unless somebody loses patience."""
    server.desk.close()
    stopping.set()
    impatient = asyncio.create_task(stop.second.wait())
    await asyncio.wait([serving, impatient], timeout=FAREWELL, return_when=asyncio.FIRST_COMPLETED)
    http.should_exit = True
    await asyncio.wait([serving, impatient], return_when=asyncio.FIRST_COMPLETED)
    impatient.cancel()
    if not serving.done():
        http.force_exit = True
        await asyncio.wait([serving], timeout=1)
        serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving


async def _ready(server: Server, stopping: asyncio.Event) -> dict[str, bool]:
    """What has to work before requests are welcome."""
    try:
        async with asyncio.timeout(2):
            await server.context.store.ping()
        answers = True
    except (Unavailable, TimeoutError):
        answers = False
    stalled = server.stalled()
    stays = not stopping.is_set()
    return {"stays": stays, "store": answers, **{loop.name: loop.name not in stalled for loop in server.loops}}


def _admin_key(config: ServerConfig) -> tuple[str, bool]:
    """The admin key, and whether it was made just now. There is no default secret."""
    if config.admin_key is not None:
        return config.admin_key, False
    path = config.admin_key_file
    try:
        return path.read_text().strip(), False
    except FileNotFoundError:
        key = system.secret()
        # Written completely before it has its name: a kill between two lines must not leave an empty key behind.
        draft = path.with_suffix(".new")
        with open(draft, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(f"{key}\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        return key, True


async def _allow_admin(store: Store, key: str) -> None:
    now = store.now()
    await store.add_key(
        Key(
            id=ids.make("k", now, system.dice()),
            tenant=DEFAULT_TENANT,
            name="admin",
            role="admin",
            digest=hashlib.sha256(key.encode()).hexdigest(),
            created_at=now,
        )
    )


# --- the worker ---------------------------------------------------------------------------------------------------


async def _start_worker(
    config: CrewConfig,
    dispatch: Dispatch,
    stack: contextlib.AsyncExitStack,
    stop: _StopSignals,
    *,
    alone: bool = False,
) -> Worker:
    """`alone`: nothing but the worker lives in this process, so that it may end with a lost session."""
    registry.REGISTRY.add(registry.noop, registry.NOOP)
    for module in config.tasks:
        registry.load(module)
    config.scripts_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    guard = ProcessGuard()
    stack.push_async_callback(guard.close)
    processes = Processes(guard)
    http = HttpExecutor(slots=config.slots)
    stack.push_async_callback(http.close)
    python = PythonExecutor(registry.REGISTRY, slots=config.slots, process_mode=PythonProcesses(processes))
    stack.callback(python.close)
    executors: tuple[Executor, ...] = (
        http,
        ShellExecutor(processes),
        ScriptExecutor(processes, config.scripts_dir),
        python,
    )
    hello = Hello(
        name=config.name,
        slots=config.slots,
        labels=list(config.labels),
        tasks=registry.REGISTRY.names,
        version=timeball.__version__,
        cpu=config.cpu,
        memory_mb=config.memory_mb,
        dedicated=config.dedicated,
    )
    by_kind = {executor.kind: executor for executor in executors}
    outlived = partial(_leave_threads, python) if alone else None
    clock = system.SystemClock()
    worker = Worker(dispatch, by_kind, clock, hello, dice=system.dice(), guard=guard, outlived=outlived)
    await worker.start()
    stack.push_async_callback(_drain, worker, config.drain_seconds, stop)
    return worker


def _leave_threads(python: PythonExecutor, attempts: Sequence[Attempt]) -> None:
    """Others are about to run what still runs here in threads, and only the end of the process ends those.

    Everything the worker held is lost already, and the guard kills whatever other processes there are.
    """
    names = sorted({str(attempt.run_id) for attempt in attempts if python.runs_in_thread(attempt)})
    if names:
        _log.error(
            "the session is lost and functions run on in threads: this worker ends itself, to be started anew",
            runs=", ".join(names),
        )
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(os.EX_TEMPFAIL)


async def _drain(worker: Worker, seconds: float, stop: _StopSignals) -> None:
    """Let runs finish, unless somebody loses patience."""
    draining = asyncio.create_task(worker.drain(int(seconds * SECOND)))
    impatient = asyncio.create_task(stop.second.wait())
    await asyncio.wait([draining, impatient], return_when=asyncio.FIRST_COMPLETED)
    impatient.cancel()
    if not draining.done():
        draining.cancel()
        await asyncio.wait([draining])
        await worker.stop()


class _StopSignals:
    """The first interrupt asks to finish, the second to stop at once."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._heard)

    def _heard(self) -> None:
        (self.second if self.first.is_set() else self.first).set()


def _greet(address: str, key: str | None, key_file: Path) -> None:
    if key is None:
        print(f"Timeball is up: {address}", flush=True)
        return
    print(
        f"Timeball is up: {address}\n\n"
        f"  admin key  {key}\n"
        f"             (kept in {key_file}; the command line on this machine finds it)\n\n"
        f"  try        timeball jobs create hello --shell 'echo hello' --wait\n"
        f"  or         curl -H 'Authorization: Bearer {key}' {address}/v1/jobs \\\n"
        f'               -d \'{{"task": {{"kind": "shell", "command": "echo hello"}}}}\'\n',
        flush=True,
    )
