"""PostgreSQL: a store for a fleet, reached through a pool of asyncpg connections.

A transaction that conflicts with others (serialization failure, deadlock, the same id inserted at the same moment) is
run again. So is one whose connection was lost, for a few seconds: it is unknown whether it was committed, and a caller
that got an error might send the same request once more. Every transaction may be repeated, because its ids were made
before it began. If no connection can be made, the store is `Unavailable` at once, since nothing has happened yet.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import asyncpg
import structlog

from timeball.domain.dispatch.priority import CREDIT
from timeball.domain.errors import Unavailable
from timeball.domain.instant import SECOND, Micros
from timeball.ports.metrics import StoreMetrics, StoreUse
from timeball.ports.store.changes import ChangeListener
from timeball.ports.store.store import MessageListener, StoreKind, WakeupListener
from timeball.stores.postgres.clock import ServerClock
from timeball.stores.postgres.connect import SETTINGS, Address, Connection, Own, Pooled
from timeball.stores.postgres.deletion import LockedTenantDeletions
from timeball.stores.postgres.errors import CONNECTION_LOST, REPEATABLE, Busy, Interrupted, translated_errors
from timeball.stores.postgres.partitions import DailyPartitions, prepare
from timeball.stores.postgres.pool import Pool
from timeball.stores.postgres.replica import Replica, ReplicaUnavailable
from timeball.stores.postgres.schema import TRIES, connect_for_schema, ensure_schema
from timeball.stores.postgres.tx import Compiler, Tx, writing
from timeball.stores.postgres.wakeups import PostgresWakeups
from timeball.stores.sql.committed_changes import CommittedChanges
from timeball.stores.sql.driver import TOO_LONG, Work
from timeball.stores.sql.store import SqlStore

T = TypeVar("T")

SLOW_READ_TIMEOUT: float = 10.0
"""Maximum seconds that a slow read waits for other slow reads, and that each of its statements may take."""
SAMPLE_EVERY: Final = 1.0
"""Seconds between two readings of the server's clock."""
UNCERTAIN: Final = 4_000_000
"""Microseconds for which a transaction is repeated after its connection was lost: until then it is unknown whether it
was committed."""
REPLICA_WAIT_TIME: Final = 60_000_000
"""Microseconds after a lost connection in which every commit waits for the replicas, also one without writes."""
TRY_AGAIN_AFTER: Final = 0.1

_log = structlog.get_logger()


class PostgresStore(DailyPartitions, LockedTenantDeletions, SqlStore):
    """The store on PostgreSQL. `timeout` is the maximum time of a connect or a statement, in seconds, before the store
    counts as unavailable.

    With `direct`, `dsn` is the address of a pooler that may run every transaction on another connection, such as
    PgBouncer in transaction mode. `direct` is the address of the database itself, for wakeups and migrations, which
    need a permanent connection. `replica` is the address for reads that may lag behind.
    """

    kind: StoreKind = "postgresql"

    def __init__(
        self,
        dsn: str,
        *,
        monotonic: Callable[[], Micros],
        direct: str | None = None,
        replica: str | None = None,
        min_connections: int = 2,
        max_connections: int = 10,
        timeout: float = 15.0,
        credit: Micros = CREDIT,
        may_migrate: bool = True,
    ) -> None:
        """`may_migrate`: migrate the database when the store is opened. Otherwise `open` raises `Conflict` if the
        schema is not current."""
        connections = Pooled(min_connections, max_connections) if direct else Own(min_connections, max_connections)
        reads = Replica(replica, monotonic, max(1, max_connections // 2)) if replica else None
        super().__init__(_Driver(dsn, direct or dsn, monotonic, connections, reads, timeout, may_migrate), credit)


class _Driver:
    def __init__(
        self,
        dsn: str,
        direct: str,
        monotonic: Callable[[], Micros],
        connections: Own,
        replica: Replica | None,
        timeout: float,
        may_migrate: bool,
    ) -> None:
        self.committed = CommittedChanges()
        self.metrics = StoreMetrics()
        self._direct = Address(direct, timeout)
        self._monotonic = monotonic
        self._connections = connections
        self._replica = replica
        self._timeout = timeout
        self._may_migrate = may_migrate
        self._clock = ServerClock(monotonic)
        self._compiler = Compiler()
        self._pool = Pool(Address(dsn, timeout), connections, timeout, self._read_clock)
        self._tasks: list[asyncio.Task[None]] = []
        self._wakeups = PostgresWakeups(self._connect)
        self._wait_for_replicas_until: Micros = 0
        self._slow = asyncio.Semaphore(max(1, connections.limit // 2))

    # --- life ------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        try:
            async with translated_errors():
                await self._migrate()
                await self._pool.open()
                if self._replica is not None:
                    await self._replica.open()
            await self._sample()
        except BaseException:
            await self.close()
            raise
        self._tasks = [
            asyncio.create_task(self._keep_sampling(), name="postgres-clock"),
            asyncio.create_task(self._wakeups.keep_listening(), name="postgres-hints"),
        ]

    async def close(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._replica is not None:
            await self._replica.close()
        await self._pool.close()

    async def _connect(self) -> asyncpg.Connection[Any]:
        """Return a connection outside of the pool."""
        return await self._direct.connect(command_timeout=self._timeout, server_settings=SETTINGS)

    async def _migrate(self) -> None:
        connection = await connect_for_schema(self._direct, None)
        try:
            await ensure_schema(connection, may_migrate=self._may_migrate)
        finally:
            await connection.close(timeout=self._timeout)

    # --- transactions ----------------------------------------------------------------------------------------------

    def use(self) -> StoreUse:
        return StoreUse(connections=self._pool.use)

    async def write(self, work: Work[T], *, once: bool = False) -> T:
        began = self._monotonic()
        try:
            return await self._write_again(work, once=once)
        finally:
            self.metrics.writes.observe((self._monotonic() - began) / SECOND)

    async def _write_again(self, work: Work[T], *, once: bool) -> T:
        refused, interrupted_at = 0, None
        while True:
            try:
                return await self._write(work, may_be_done=refused > 0 or interrupted_at is not None)
            except REPEATABLE as error:
                refused += 1
                await _make_way(refused, error)
            except Unavailable as error:
                now = self._monotonic()
                if isinstance(error.__cause__, asyncpg.ReadOnlySQLTransactionError):
                    # The server was demoted: new connections find its successor.
                    await self._pool.expire()
                    refused += 1
                    if refused > 1 and interrupted_at is None:
                        raise
                elif isinstance(error, Interrupted):
                    interrupted_at = now if interrupted_at is None else interrupted_at
                    self._wait_for_replicas_until = now + REPLICA_WAIT_TIME
                    await self._pool.expire()
                if interrupted_at is not None:
                    if once or now - interrupted_at >= UNCERTAIN:
                        raise
                    await asyncio.sleep(TRY_AGAIN_AFTER)
                elif refused == 0:
                    raise

    async def _write(self, work: Work[T], *, may_be_done: bool) -> T:
        async with (
            self._pool.connection() as connection,
            translated_errors(Interrupted),
            writing(connection, self._compiler, self._connections, may_be_done=may_be_done) as tx,
        ):
            if self._monotonic() < self._wait_for_replicas_until:
                await tx.begin()
                await connection.execute(_BE_REPLICATED)
            tx.is_watched = self.committed.is_watched
            answer = await work(tx)
        if tx.changes:
            self.committed.add(tx.changes)
        return answer

    async def read(self, work: Work[T], *, slow: bool = False, may_lag: bool = False) -> T:
        began = self._monotonic()
        try:
            return await self._read_somewhere(work, slow=slow, may_lag=may_lag)
        finally:
            self.metrics.reads.observe((self._monotonic() - began) / SECOND)

    async def _read_somewhere(self, work: Work[T], *, slow: bool, may_lag: bool) -> T:
        if may_lag and self._replica is not None:
            timeout = min(SLOW_READ_TIMEOUT, self._timeout)
            with contextlib.suppress(ReplicaUnavailable):
                return await self._replica.read(lambda found: work(Tx(found, self._compiler, timeout)), timeout)
        if slow:
            return await self._read_slowly(work)
        return await self._read_again(work)

    async def _read_slowly(self, work: Work[T]) -> T:
        """Run a slow read. Slow reads use at most half of the connections."""
        try:
            await asyncio.wait_for(self._slow.acquire(), SLOW_READ_TIMEOUT)
        except TimeoutError:
            raise Unavailable(TOO_LONG) from None
        try:
            return await self._read_again(work, min(SLOW_READ_TIMEOUT, self._timeout))
        except Unavailable as error:
            if isinstance(error.__cause__, TimeoutError) and not isinstance(error, Busy):
                raise Unavailable(TOO_LONG) from error
            raise
        finally:
            self._slow.release()

    async def _read_again(self, work: Work[T], timeout: float | None = None) -> T:
        refused, is_second = 0, False
        while True:
            try:
                return await self._read(work, timeout)
            except REPEATABLE as error:  # a read waits for table locks too, when partitions are attached or detached
                refused += 1
                await _make_way(refused, error)
            except Unavailable as error:
                # A pooled connection may have been lost long ago, and the others with it. Repeating a read is safe.
                cause = error.__cause__
                is_slow = timeout is not None and isinstance(cause, TimeoutError)
                is_gone = isinstance(cause, CONNECTION_LOST) and not is_slow and not isinstance(error, Busy)
                if is_second or not is_gone or not self._pool.is_open:
                    raise
                is_second = True
                await self._pool.expire()

    async def _read(self, work: Work[T], timeout: float | None) -> T:
        async with self._pool.connection() as connection, translated_errors(), self._connections.reading(connection):
            return await work(Tx(connection, self._compiler, timeout))

    # --- time ------------------------------------------------------------------------------------------------------

    def now(self) -> Micros:
        return self._clock()

    async def _sample(self) -> None:
        async with self._pool.connection() as connection, translated_errors():
            await self._read_clock(connection)

    async def _read_clock(self, connection: Connection) -> None:
        before = self._clock()
        async with self._connections.reading(connection):
            now = await connection.fetchval(_CLOCK)
        self._clock.sample(now, before)

    async def _keep_sampling(self) -> None:
        """Read the server's clock every second while the store is open. Errors are only logged: without new answers the
        estimate falls behind, and remains a lower bound of the clock."""
        failing = False
        while True:
            await asyncio.sleep(SAMPLE_EVERY)
            try:
                await self._sample()
                failing = False
            except Exception as error:
                if not failing:
                    _log.warning("the clock of PostgreSQL cannot be read", error=str(error) or type(error).__name__)
                failing = True

    # --- wakeups ---------------------------------------------------------------------------------------------------

    def listen(self, hint: WakeupListener) -> None:
        self._wakeups.listeners.append(hint)

    def wake_all(self, topic: str) -> None:
        self._wakeups.wake_all(topic)

    def require_space(self) -> None:
        """Do nothing: the disk belongs to the server of PostgreSQL, whose errors say when it is full."""

    def watch_changes(self, listener: ChangeListener | None) -> None:
        self.committed.listener = listener

    def listen_to_servers(self, listener: MessageListener) -> None:
        self._wakeups.message_listeners.append(listener)

    def send_to_servers(self, message: str) -> None:
        self._wakeups.send(message)


async def _make_way(refused: int, error: Exception) -> None:
    """Wait before a transaction that conflicted with others is run again, so that the others can finish. Raise
    `Unavailable` after 5 conflicts."""
    if refused == TRIES:
        raise Unavailable(f"PostgreSQL has too many conflicting transactions: {error}") from error
    await asyncio.sleep(0.001 * 2**refused)


async def make_room_for(connection: Connection, days: Iterable[Micros]) -> None:
    """Create the history partitions of these days, inside a transaction."""
    tx = Tx(connection, Compiler())
    for day in days:
        await prepare(tx, day)


_BE_REPLICATED: Final = "SELECT pg_logical_emit_message(true, 'timeball', 'again')"
"""A write that makes the commit wait for synchronous replicas. A repeated transaction that finds its work done writes
nothing, so its commit would not wait; but an interrupted commit can be visible before the replica has it."""
_CLOCK: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
