"""Starts and stops a worker with its executors."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import structlog

import timeball
from timeball import system, tasks
from timeball.bootstrap.confinement import confine
from timeball.bootstrap.descriptors import Descriptors
from timeball.bootstrap.heartbeat_thread import Connect, Standby
from timeball.bootstrap.process import StopSignals
from timeball.config import WorkerRoleConfig
from timeball.domain.dispatch.slot_bounds import SlotBounds
from timeball.domain.dispatch.slot_pools import pools_of
from timeball.domain.errors import Conflict
from timeball.domain.instant import SECOND
from timeball.executors.guard.guard import ProcessGuard
from timeball.executors.lazy_executor import ClosableInBackground, LazyBackgroundExecutor
from timeball.executors.process.process import Processes
from timeball.executors.python import streams
from timeball.executors.python.executor import PythonExecutor
from timeball.executors.python.warm.processes import PythonProcesses
from timeball.executors.script import ScriptExecutor
from timeball.executors.shell import ShellExecutor
from timeball.ports.executor import Executor, ExecutorAttempt
from timeball.ports.telemetry.tracing import Tracing
from timeball.ports.worker_protocol import MAX_FUNCTIONS, RegisterWorker, WorkerProtocol
from timeball.worker.worker import Worker

_log = structlog.get_logger()


async def start_worker(
    config: WorkerRoleConfig,
    dispatch: WorkerProtocol,
    stack: contextlib.AsyncExitStack,
    stop: StopSignals,
    *,
    bounds: SlotBounds,
    descriptors: Descriptors,
    beats: Connect,
    alone: bool = False,
    tracing: Tracing | None = None,
) -> Worker:
    """Start a worker. `beats` opens the connection over which its lease is renewed while the event loop is blocked.
    `alone` is True if the process contains only the worker, so that it may exit after a lost session. Spans go to
    `tracing`.
    """
    stack.enter_context(streams.listening())
    tasks.REGISTRY.add(tasks.noop, tasks.NOOP)
    for module in config.tasks:
        tasks.load(module)
    config.scripts_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    guard = ProcessGuard(confine(config), job_descriptors=descriptors.original)
    stack.push_async_callback(guard.close)
    processes = Processes(guard)
    in_processes = PythonProcesses(processes, max_children=bounds.processes)
    stack.push_async_callback(in_processes.close)
    python = PythonExecutor(tasks.REGISTRY, slots=bounds.threads, process_mode=in_processes)
    stack.callback(python.close)
    functions = tasks.REGISTRY.names
    if len(functions) > MAX_FUNCTIONS:
        _log.warning("the worker has more functions than it can list; the others run as well", limit=MAX_FUNCTIONS)
    hello = RegisterWorker(
        name=config.name,
        slots=bounds.slots,
        pools=pools_of(bounds, tasks.REGISTRY.modes, config.kinds),
        labels=list(config.labels),
        tasks=functions[:MAX_FUNCTIONS],
        version=timeball.__version__,
        cpu=config.cpu,
        memory_mb=config.memory_mb,
        dedicated=config.dedicated,
        kinds=None if config.kinds is None else list(config.kinds),
    )
    registered = executors(config.scripts_dir, processes, python, stack)
    by_kind = {executor.kind: executor for executor in registered if _takes(config, executor.kind)}
    outlived = partial(_leave_threads, python) if alone else None
    worker = Worker(
        dispatch,
        by_kind,
        system.SystemClock(),
        hello,
        rng=system.rng(),
        guard=guard,
        on_outlived=outlived,
        tracing=tracing,
    )
    if config.metrics_listen is not None:
        offer_metrics(worker, *config.metrics_listen, stack)
    await worker.start()
    stack.callback(Standby(worker, beats).close)
    stack.push_async_callback(_drain, worker, config.drain_seconds, stop)
    return worker


def executors(
    scripts_dir: Path, processes: Processes, python: PythonExecutor, stack: contextlib.AsyncExitStack
) -> tuple[Executor, ...]:
    """Return the executor of each task kind."""
    http = LazyBackgroundExecutor("http", _http)
    stack.push_async_callback(http.close)
    return (
        http,
        ShellExecutor(processes),
        ScriptExecutor(processes, scripts_dir),
        python,
    )


def _takes(config: WorkerRoleConfig, kind: str) -> bool:
    return config.kinds is None or kind in config.kinds


def _http() -> ClosableInBackground:
    from timeball.executors.http.executor import HttpExecutor

    return HttpExecutor()


def _leave_threads(python: PythonExecutor, attempts: Sequence[ExecutorAttempt]) -> None:
    """End the process if attempts still execute in threads after their session was lost. Other workers are about to
    execute these runs again, and only the end of the process ends a thread.

    Nothing else is lost by that: all attempts of the worker are lost already, and the guard kills its job processes.
    """
    names = sorted({str(attempt.run_id) for attempt in attempts if python.runs_in_thread(attempt)})
    if names:
        _log.error(
            "the session is lost and functions still run in threads: this worker exits and has to be restarted",
            runs=", ".join(names),
        )
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(os.EX_TEMPFAIL)


def offer_metrics(worker: Worker, host: str, port: int, stack: contextlib.ExitStack | contextlib.AsyncExitStack) -> int:
    """Offer `/metrics` of a worker, in threads of their own. Return the port."""
    # imported here, because workers without metrics would lose 60 ms
    from prometheus_client import CollectorRegistry, start_http_server

    from timeball.worker.metrics import WorkerCollector

    registry = CollectorRegistry()
    registry.register(WorkerCollector(worker))
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        what = f"cannot offer metrics on {host} port {port}: {error.strerror}; use another --metrics-listen"
        raise Conflict(what) from None
    stack.callback(thread.join)
    stack.callback(server.server_close)
    stack.callback(server.shutdown)
    _log.info("metrics of the worker are offered", address=f"{host}:{server.server_port}")
    return server.server_port


async def _drain(worker: Worker, seconds: float, stop: StopSignals) -> None:
    """Drain the worker. A second signal stops it at once."""
    draining = asyncio.create_task(worker.drain(int(seconds * SECOND)))
    forced = asyncio.create_task(stop.second.wait())
    await asyncio.wait([draining, forced], return_when=asyncio.FIRST_COMPLETED)
    forced.cancel()
    if not draining.done():
        draining.cancel()
        await asyncio.wait([draining])
        await worker.stop()
