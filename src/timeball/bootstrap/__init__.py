"""Starts servers, workers and migrations. This is the only package that imports all adapters.

Each process imports only the parts that it uses, because importing all of them takes twice as long.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import structlog
import uvloop

from timeball import host, system
from timeball.bootstrap.hardening import hide_secrets
from timeball.bootstrap.init_process import stay_as_init
from timeball.bootstrap.private_files import make_new_files_private
from timeball.bootstrap.process import StopSignals, tune_interpreter
from timeball.bootstrap.supervisor import Supervised
from timeball.bootstrap.worker_processes import report_session, server_ready, share_of, supervised, worker_of
from timeball.config import MigrateConfig, ServerConfig, UpConfig, WorkerConfig
from timeball.telemetry import logging

if TYPE_CHECKING:
    from timeball.operation.storage.copy_objects import CopyObjects
    from timeball.ports.store_transfer import Report, TransferResult
    from timeball.stores.transfer.transfer import StoreTransfer

_log = structlog.get_logger()


def run_up(config: UpConfig) -> int:
    """Run a server and a worker until a signal stops them: in one process, or each in its own if there are several
    workers.
    """
    make_new_files_private()
    hide_secrets()
    stay_as_init()
    logging.configure(config.log_level, config.log_format)
    match supervised(config, server=True):
        case int(code):
            return code
        case None:
            return uvloop.run(_up(config))
        case Supervised(number=0) as process:
            return uvloop.run(_server(config, process))
        case process:
            worker = worker_of(config, process.message)
            return uvloop.run(_worker(share_of(worker, process.number), process))


def run_server(config: ServerConfig) -> int:
    make_new_files_private()
    hide_secrets()
    stay_as_init()
    logging.configure(config.log_level, config.log_format)
    return uvloop.run(_server(config))


def run_worker(config: WorkerConfig) -> int:
    make_new_files_private()
    hide_secrets()
    stay_as_init()
    logging.configure(config.log_level, config.log_format)
    match supervised(config):
        case int(code):
            return code
        case None:
            return uvloop.run(_worker(config))
        case process:
            return uvloop.run(_worker(share_of(config, process.number), process))


def run_migrate(config: MigrateConfig, report: Report) -> TransferResult:
    """Copy everything in the SQLite store to PostgreSQL, and close the SQLite store for further use."""
    make_new_files_private()
    return asyncio.run(_transfer(config).move(report))


def rehearse_migrate(config: MigrateConfig) -> TransferResult:
    """Return what a migration would copy, without copying it."""
    return asyncio.run(_transfer(config).rehearse())


def take_back(config: MigrateConfig) -> None:
    """Make an SQLite store usable again after it was migrated."""
    make_new_files_private()
    _transfer(config).take_back()


def _transfer(config: MigrateConfig) -> StoreTransfer:
    hide_secrets()
    from timeball.stores.transfer.transfer import StoreTransfer

    return StoreTransfer(
        config.source, config.target or "", system.wall, system.monotonic, system.rng(), _copy_objects(config)
    )


def _copy_objects(config: MigrateConfig) -> CopyObjects:
    from timeball.object_stores.bucket import Unopened
    from timeball.operation.storage.copy_objects import CopyObjects

    here, there = config.objects, config.target_objects
    if there is None:
        refusal = (
            f"values over 64 KiB are stored in {here}, and no setting says where servers on PostgreSQL find them:"
            " name a folder that all of them share, or a bucket, with --objects; they are copied there"
        )
        return CopyObjects(Unopened(here), None, refusal)
    return CopyObjects(Unopened(here), None if there == here else Unopened(there))


async def _up(config: UpConfig) -> int:
    from timeball.bootstrap import greeting, heartbeat_thread
    from timeball.bootstrap import server as bootstrap_server
    from timeball.bootstrap import worker as bootstrap_worker
    from timeball.bootstrap.descriptors import raise_limit

    stop = StopSignals()
    descriptors = raise_limit()
    bounds = descriptors.bounds(config.slots, host.cpus(), serving=True)
    async with contextlib.AsyncExitStack() as stack:
        limits = descriptors.connections(bounds.slots)
        started = await bootstrap_server.start_server(config, stack, stop, limits)
        server = started.server
        beats = heartbeat_thread.to_store(config, server.context.store)
        await bootstrap_worker.start_worker(
            config,
            server.gateway,
            stack,
            stop,
            bounds=bounds,
            descriptors=descriptors,
            beats=beats,
            tracing=server.context.tracing,
        )
        tune_interpreter()
        greeting.greet(started, config, await greeting.sign_in_link(started))
        await stop.first.wait()
        _log.info("stopping: letting runs finish; interrupt again to stop at once")
    return 0


async def _server(config: ServerConfig, process: Supervised | None = None) -> int:
    from timeball.bootstrap import greeting
    from timeball.bootstrap import server as bootstrap_server
    from timeball.bootstrap.descriptors import raise_limit

    stop = StopSignals(process.lifeline if process is not None else None)
    limits = raise_limit().connections(slots=0)
    async with contextlib.AsyncExitStack() as stack:
        started = await bootstrap_server.start_server(config, stack, stop, limits)
        tune_interpreter()
        if process is None:
            greeting.greet(started, config)
        else:
            greeting.greet(started, config, await greeting.sign_in_link(started))
            process.is_ready(server_ready(started.address, config.host, started.admin_key))
        await stop.first.wait()
    return 0


async def _worker(config: WorkerConfig, process: Supervised | None = None) -> int:
    from timeball.bootstrap import heartbeat_thread
    from timeball.bootstrap import worker as bootstrap_worker
    from timeball.bootstrap.descriptors import raise_limit
    from timeball.bootstrap.tracing import open_tracing
    from timeball.worker.transport.http_worker_protocol import HttpWorkerProtocol

    stop = StopSignals(process.lifeline if process is not None else None)
    descriptors = raise_limit()
    bounds = descriptors.bounds(config.slots, host.cpus(), serving=False, processes=config.processes)
    async with contextlib.AsyncExitStack() as stack:
        home = system.rng().randrange(len(config.servers))
        dispatch = await stack.enter_async_context(
            HttpWorkerProtocol(config.servers, config.token, home=home, ca=config.ca)
        )
        beats = heartbeat_thread.over_http(config)
        worker = await bootstrap_worker.start_worker(
            config,
            dispatch,
            stack,
            stop,
            bounds=bounds,
            descriptors=descriptors,
            beats=beats,
            alone=True,
            tracing=open_tracing(config, stack),
        )
        tune_interpreter()
        _log.info("worker is up", name=config.name, slots=bounds.slots, servers=", ".join(config.servers))
        reporting = None if process is None else asyncio.create_task(report_session(worker, process))
        stopping = asyncio.create_task(stop.first.wait())
        ended = asyncio.create_task(worker.wait())
        await asyncio.wait([stopping, ended], return_when=asyncio.FIRST_COMPLETED)
        if reporting is not None:
            reporting.cancel()
        if ended.done():
            ended.result()
            _log.info("the worker has drained, by order of a server")
        else:
            _log.info("stopping: letting runs finish; interrupt again to stop at once")
    return 0
