"""A replica for reads that may lag behind, such as lists and histories. No decision is made from it.

The replica is optional. If it cannot be reached or returns an error, for example because it is too far behind to know a
table, the primary answers, and the replica is not tried again for 5 seconds. A read that takes too long fails with
`Unavailable`; the primary is not asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import asyncpg
import structlog

from timeball.domain.errors import Unavailable
from timeball.domain.instant import SECOND, Micros
from timeball.stores.postgres.connect import SETTINGS, Address, Connection
from timeball.stores.sql.driver import TOO_LONG

T = TypeVar("T")

CONNECT: Final = 2.0
"""Seconds until a connect to the replica counts as failed."""
REPLICA_RETRY_DELAY: Final = 5 * SECOND
_log = structlog.get_logger()


class ReplicaUnavailable(Exception):
    """Raised when the replica cannot answer, so that the primary must be asked."""


class Replica:
    def __init__(self, dsn: str, monotonic: Callable[[], Micros], connections: int) -> None:
        self._address = Address(dsn, CONNECT)
        self._monotonic = monotonic
        self._connections = connections
        self._pool: asyncpg.Pool[Any] | None = None
        self._unavailable_until: Micros | None = None

    async def open(self) -> None:
        """Create the pool. No connection is made yet."""
        self._pool = await asyncpg.create_pool(
            connect=self._connect,
            min_size=0,
            max_size=self._connections,
            max_cached_statement_lifetime=0,
            server_settings=SETTINGS | {"default_transaction_read_only": "on"},
        )

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.terminate()

    async def read(self, look: Callable[[Connection], Awaitable[T]], timeout: float) -> T:
        """Read from the replica. Raise `ReplicaUnavailable` if the primary should be asked, and `Unavailable` if
        the read takes too long."""
        if self._pool is None or (self._unavailable_until is not None and self._monotonic() < self._unavailable_until):
            raise ReplicaUnavailable
        try:
            async with self._pool.acquire(timeout=CONNECT) as connection:
                try:
                    async with asyncio.timeout(timeout):
                        found = await look(connection)
                except TimeoutError:
                    raise Unavailable(TOO_LONG) from None
        except (OSError, EOFError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            if isinstance(error, ValueError):
                raise
            if self._unavailable_until is None:
                _log.warning(
                    "the replica does not answer; reads use the primary", error=str(error) or type(error).__name__
                )
            self._unavailable_until = self._monotonic() + REPLICA_RETRY_DELAY
            await self._pool.expire_connections()
            raise ReplicaUnavailable from error
        if self._unavailable_until is not None:
            self._unavailable_until = None
            _log.info("the replica answers again")
        return found

    async def _connect(self, dsn: str | None = None, **options: Any) -> asyncpg.Connection[Any]:
        return await self._address.connect(**options)
