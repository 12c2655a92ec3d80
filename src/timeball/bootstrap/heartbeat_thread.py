"""A thread that sends the beats of a worker while its event loop is blocked.

A Python function of mode `async` may block the event loop of its worker, which then sends no beats. When the lease has
lapsed, the session would be lost, and with it all other runs of the worker, which would be repeated without need. So a
thread checks once a second whether the loop is late with a beat. If it is, the thread sends the beat, with a connection
and an event loop of its own. A call into C that holds the interpreter lock blocks this thread, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

import structlog

from timeball import system
from timeball.config import ServerConfig, WorkerConfig
from timeball.domain.instant import SECOND, Micros
from timeball.domain.run.lifecycle import LEASE
from timeball.ports.store.store import Store
from timeball.ports.worker_protocol import LOCAL_KEY, Beat, SessionLost
from timeball.worker.worker import Worker

LOOK_INTERVAL: Final = SECOND
BEAT_TIMEOUT: Final = 6.0
"""Seconds for one beat: enough to try two servers, one of which does not answer."""

_log = structlog.get_logger()


class Beats(Protocol):
    async def beat(self, beat: Beat) -> object: ...


Connect = Callable[[], AbstractAsyncContextManager[Beats]]
"""Opens a connection for beats, in the event loop of the calling thread."""


class Standby:
    """The thread that sends beats in place of a blocked event loop. It watches one worker until it is closed."""

    def __init__(self, worker: Worker, connect: Connect, look_interval: Micros = LOOK_INTERVAL) -> None:
        self._worker = worker
        self._connect = connect
        self._look_interval = look_interval / SECOND
        self._closed = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._watch, name="worker-standby", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread without waiting for it. A beat that it is sending does no harm."""
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(self._look_interval):
            beat = self._worker.beat_for_stalled_loop()
            if beat is None:
                self._failing = False
                continue
            try:
                asyncio.run(self._send(beat))
                self._failing = False
            except Exception as error:
                if not self._failing:
                    self._failing = True
                    reason = f"{type(error).__name__}: {error}"
                    _log.warning(
                        "the event loop is blocked, and the heartbeat thread could not send a beat", error=reason
                    )

    async def _send(self, beat: Beat) -> None:
        async with asyncio.timeout(BEAT_TIMEOUT), self._connect() as beats:
            sent_at = system.monotonic()
            await beats.beat(beat)
        self._worker.beat_was_answered(beat, sent_at)
        _log.warning("the event loop is blocked: the heartbeat thread sent a beat", session=beat.session)


class StoreBeats:
    """Renews the lease of a worker in the same process as a server, directly in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def beat(self, beat: Beat) -> None:
        if await self._store.renew([(beat.session, LOCAL_KEY)], LEASE) == [None]:
            raise SessionLost(beat.session)


def over_http(config: WorkerConfig) -> Connect:
    from timeball.worker.transport.http_worker_protocol import HttpWorkerProtocol

    return lambda: HttpWorkerProtocol(config.servers, config.token, ca=config.ca)


def to_store(config: ServerConfig, store: Store) -> Connect:
    """Return a function with which the thread connects to the store. On SQLite it is the store of the process, whose
    one writer serves all threads. On PostgreSQL the function opens a connection in the event loop of the thread.
    """

    @contextlib.asynccontextmanager
    async def connect() -> AsyncIterator[Beats]:
        if config.sqlite_path is not None:
            yield StoreBeats(store)
            return
        from timeball.stores.postgres.store import PostgresStore

        own = PostgresStore(config.store, monotonic=system.monotonic, direct=config.store_direct, min_connections=1)
        await own.open()
        try:
            yield StoreBeats(own)
        finally:
            await own.close()

    return connect
