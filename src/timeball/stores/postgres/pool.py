"""A pool of connections that grows with demand, and a queue of callers that wait for one."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any

import asyncpg

from timeball.domain.errors import Unavailable
from timeball.ports.metrics import PoolUse
from timeball.stores.postgres.connect import Address, Connection, Own
from timeball.stores.postgres.errors import CONNECTION_LOST, NO_CONNECTION, Busy, no_answer, refused

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

GROW_AFTER: float = 0.02
"""Seconds that a caller waits for an existing connection before the pool makes another: a new connection must read the
catalog of every table before its first answer, which takes longer. Calls that come at the same time, as from all loops
when a server starts, therefore share a few connections; if they keep coming, the pool grows (see `_wait_in_line`)."""


class Pool:
    """A pool of asyncpg connections. `timeout` is the maximum time of a connect or a statement, in seconds. `greet` is
    called with every new connection, because the connection may lead to another PostgreSQL server than earlier ones."""

    def __init__(
        self,
        address: Address,
        connections: Own,
        timeout: float,
        greet: Callable[[Connection], Coroutine[Any, Any, None]],
    ) -> None:
        self._address = address
        self._connections = connections
        self._timeout = timeout
        self._greet = greet
        self._pool: asyncpg.Pool[Any] | None = None
        self._working = 0
        self._in_line: deque[asyncio.Future[None]] = deque()

    @property
    def is_open(self) -> bool:
        return self._pool is not None

    @property
    def size(self) -> int:
        return 0 if self._pool is None else self._pool.get_size()

    @property
    def use(self) -> PoolUse:
        return PoolUse(
            limit=self._connections.limit,
            open=self.size,
            busy=0 if self._pool is None else self.size - self._pool.get_idle_size(),
            waiting=max(0, self._working - self.size) + len(self._in_line),
        )

    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(
            connect=self._connect,
            init=self._greet,
            min_size=self._connections.least,
            max_size=self._connections.limit,
            statement_cache_size=self._connections.statement_cache_size,
            max_cached_statement_lifetime=0,
            command_timeout=self._timeout,
            server_settings=self._connections.settings,
            reset=_nothing_to_reset,
        )

    async def close(self) -> None:
        if self._pool is not None:
            pool, self._pool = self._pool, None
            try:
                await asyncio.wait_for(pool.close(), self._timeout)
            except (TimeoutError, *CONNECTION_LOST):
                pool.terminate()

    async def expire(self) -> None:
        """Make the pool replace all its connections before their next use. It is called after the error of one
        connection, which probably affects the others, too."""
        if self._pool is not None:
            await self._pool.expire_connections()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        pool = self._pool
        if pool is None:
            raise Unavailable("the store is closed")
        if self._connections.least <= pool.get_size() <= self._working < self._connections.limit:
            await self._wait_in_line()
        self._working += 1
        try:
            connection = await self._take(pool)
            try:
                yield connection
            finally:
                with contextlib.suppress(*NO_CONNECTION):  # the pool replaces a broken connection
                    await pool.release(connection, timeout=self._timeout)
        finally:
            self._working -= 1
            self._call_the_next()

    async def _take(self, pool: asyncpg.Pool[Any]) -> PoolConnectionProxy[Any]:
        try:
            return await pool.acquire(timeout=self._timeout)
        except TimeoutError as error:
            if pool.get_idle_size() == 0 and pool.get_size() == pool.get_max_size():
                raise Busy(f"all {pool.get_size()} connections to PostgreSQL are busy") from error
            raise no_answer(error) from error
        except NO_CONNECTION as error:
            raise refused(error) from error

    async def _wait_in_line(self) -> None:
        """Wait until a connection is released, or until another one is worth making. The released connection is not
        reserved for the first in the queue: if another caller takes it, demand exceeds the pool, and this caller makes
        a new one."""
        mine = asyncio.get_running_loop().create_future()
        self._in_line.append(mine)
        try:
            async with asyncio.timeout(GROW_AFTER):
                await mine
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            if not mine.cancelled():
                self._call_the_next()
            raise

    def _call_the_next(self) -> None:
        while self._in_line:
            first = self._in_line.popleft()
            if not first.done():
                first.set_result(None)
                break

    async def _connect(self, dsn: str | None = None, **options: Any) -> asyncpg.Connection[Any]:
        return await self._address.connect(**options)


async def _nothing_to_reset(connection: Connection) -> None:
    """Do nothing. The pool rolls back a broken transaction, and no other state is left on a connection, so that a reset
    would be a wasted round trip."""
