"""PostgreSQL: a store for a fleet, reached through a pool of asyncpg connections.

A work that the database refuses because of its neighbours (serialization failure, deadlock, the same id inserted at
the same moment) is run again. So is one whose connection broke, for a few seconds: nobody can tell whether its commit
was done, and whoever were told that it failed might ask for the same thing once more. Every work may be repeated,
because its ids were made before. A database that does not let us in is `Unavailable` at once: nothing has happened yet.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import asyncpg
import structlog

from timeball.domain.errors import Conflict, Unavailable
from timeball.domain.instant import Micros
from timeball.domain.priority import CREDIT
from timeball.ports.housekeeping import Occupied
from timeball.ports.store import Hint
from timeball.stores.postgres_connect import SETTINGS, Address, Connection, Own, Pooled
from timeball.stores.postgres_days import DailyPartitions, not_waiting, prepare, prepare_days_ahead
from timeball.stores.postgres_replica import Away, Replica
from timeball.stores.postgres_tx import Compiler, Tx, writing
from timeball.stores.sql.dialect import POSTGRES
from timeball.stores.sql.driver import TOO_LONG, Work
from timeball.stores.sql.migrate import known, migrate
from timeball.stores.sql.store import SqlStore

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

T = TypeVar("T")

CHANNEL: Final = "timeball"
MIGRATION_LOCK: Final = 7_463_911_301
TRIES: Final = 5
PATIENCE: float = 10.0
"""Seconds that a slow read may wait for its turn, and each of its statements may take."""
GROW_AFTER: float = 0.02
"""Seconds that a work waits for one of the connections that there are before it makes another: that one has to learn
every table before its first answer, which takes the database longer. Works that come at once, as all loops do when a
server starts, so share a few; where they keep coming, there will be more: see `_wait_in_line`."""
SAMPLE_EVERY: Final = 1.0
"""Seconds between two looks at the server's clock."""
SAMPLES: Final = 8
DRIFT: Final = 5_000
"""A node's steady clock is trusted to within one part in this many."""
SHOUT_AFTER: Final = 0.003
REST_AFTER_SHOUT: Final = 0.01
"""Seconds from one message to the next at least: under load each would cost as much as the jobs that it tells of."""
RECONNECT_AFTER: Final = 0.5
UNCERTAIN: Final = 4_000_000
"""Microseconds for which a work is repeated whose connection broke, so that its fate is known."""
CAREFUL: Final = 60_000_000
"""Microseconds after such an interruption in which every commit waits for the replicas, also one without writes."""
TRY_AGAIN_AFTER: Final = 0.1

_REPEATABLE: Final = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.UniqueViolationError,
    asyncpg.InvalidCachedStatementError,
)
_GONE: Final = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # also what asyncpg says of a connection whose end it has not noticed yet
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
)
_OUT_OF_ORDER: Final = (
    TimeoutError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.CannotConnectNowError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.PostgresSystemError,
)
_NO_CONNECTION: Final = (OSError, EOFError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""Whatever the reason: a store that lets nobody in is out of order, and may let us in again."""
_log = structlog.get_logger()


class PostgresStore(DailyPartitions, SqlStore):
    """`timeout` is how long a connection or a statement may take, in seconds, before the store counts as gone.

    With `direct`, `dsn` leads to a pooler that may give every transaction another connection of its own, such as
    PgBouncer in transaction mode; `direct` leads to the database itself, for what needs a connection that stays: hints
    and migrations. `replica` is where reads may go that may be a little behind.
    """

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
    ) -> None:
        connections = Pooled(min_connections, max_connections) if direct else Own(min_connections, max_connections)
        reads = Replica(replica, monotonic, max(1, max_connections // 2)) if replica else None
        super().__init__(_Driver(dsn, direct or dsn, monotonic, connections, reads, timeout), credit)


class ServerClock:
    """A lower bound of the server's clock that never runs backwards.

    An answer that says `t` and arrived at `m` proves that the server's clock is past `t + (now - m)`. The best of the
    last few answers counts, less what the steady clock may have run too fast since. Which one is the best does not
    change as time goes by.

    An answer below what was proven before the question was asked comes from another clock: that of a replica which took
    over, or one that was set back. What is due is due by that clock from now on, so nothing older counts any more.
    """

    def __init__(self, monotonic: Callable[[], Micros]) -> None:
        self._monotonic = monotonic
        self._samples: deque[tuple[Micros, Micros]] = deque(maxlen=SAMPLES)
        self._best: tuple[Micros, Micros] | None = None
        self._answered: Micros = 0

    def sample(self, server_time: Micros, proven_before: Micros = 0) -> None:
        """`proven_before` is what this clock said when the server was asked."""
        if server_time < proven_before:
            self._samples.clear()
            self._answered = 0
        self._samples.append((server_time, self._monotonic()))
        self._best = max(self._samples, key=lambda sample: sample[0] * DRIFT - sample[1] * (DRIFT - 1))

    def __call__(self) -> Micros:
        if self._best is not None:
            server_time, arrived = self._best
            age = self._monotonic() - arrived
            self._answered = max(self._answered, server_time + age - age // DRIFT)
        return self._answered


class _Driver:
    def __init__(
        self,
        dsn: str,
        direct: str,
        monotonic: Callable[[], Micros],
        connections: Own,
        replica: Replica | None,
        timeout: float,
    ) -> None:
        self._address = Address(dsn, timeout)
        self._direct = Address(direct, timeout)
        self._monotonic = monotonic
        self._connections = connections
        self._replica = replica
        self._timeout = timeout
        self._clock = ServerClock(monotonic)
        self._compiler = Compiler()
        self._pool: asyncpg.Pool[Any] | None = None
        self._working = 0
        self._in_line: deque[asyncio.Future[None]] = deque()
        self._tasks: list[asyncio.Task[None]] = []
        self._hints = _Hints(self._connect)
        self._careful_until: Micros = 0
        self._slow = asyncio.Semaphore(max(1, connections.most // 2))

    # --- life ------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        try:
            async with _told():
                await self._migrate()
                self._pool = await asyncpg.create_pool(
                    connect=self._connect_for_pool,
                    init=self._read_clock,
                    min_size=self._connections.least,
                    max_size=self._connections.most,
                    statement_cache_size=self._connections.statement_cache_size,
                    max_cached_statement_lifetime=0,
                    command_timeout=self._timeout,
                    server_settings=self._connections.settings,
                    reset=_nothing_to_reset,
                )
                if self._replica is not None:
                    await self._replica.open()
            await self._sample()
        except BaseException:
            await self.close()
            raise
        self._tasks = [
            asyncio.create_task(self._keep_sampling(), name="postgres-clock"),
            asyncio.create_task(self._hints.keep_listening(), name="postgres-hints"),
        ]

    async def close(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._replica is not None:
            await self._replica.close()
        if self._pool is not None:
            pool, self._pool = self._pool, None
            try:
                await asyncio.wait_for(pool.close(), self._timeout)
            except (TimeoutError, *_GONE):
                pool.terminate()

    async def _connect(self, *, patient: bool = False) -> asyncpg.Connection[Any]:
        """A connection of its own; a patient one waits for statements as long as they take."""
        return await self._direct.connect(command_timeout=None if patient else self._timeout, server_settings=SETTINGS)

    async def _connect_for_pool(self, dsn: str | None = None, **options: Any) -> asyncpg.Connection[Any]:
        return await self._address.connect(**options)

    async def _migrate(self) -> None:
        try:
            connection = await self._connect(patient=True)
        except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
            raise Conflict(f"PostgreSQL refuses the connection: {error}; check the store's address") from error
        try:
            for tried in range(TRIES):
                try:
                    async with connection.transaction():
                        await apply_schema(connection)
                    break
                except asyncpg.LockNotAvailableError as error:
                    if tried == TRIES - 1:
                        raise Unavailable("PostgreSQL is too busy to be migrated; try again later") from error
                    await asyncio.sleep(1)
            with contextlib.suppress(Occupied):  # there is room in the rest, and the keeper tries again
                async with not_waiting(), connection.transaction():
                    await prepare_days_ahead(Tx(connection, self._compiler))
        finally:
            await connection.close(timeout=self._timeout)

    # --- transactions ----------------------------------------------------------------------------------------------

    async def write(self, work: Work[T], *, once: bool = False) -> T:
        refused, interrupted_at = 0, None
        while True:
            try:
                return await self._write(work, may_be_done=refused > 0 or interrupted_at is not None)
            except _REPEATABLE as error:
                refused += 1
                if refused == TRIES:
                    raise Unavailable(f"PostgreSQL has too much going on at once: {error}") from error
                await asyncio.sleep(0.001 * 2**refused)
            except Unavailable as error:
                now = self._monotonic()
                if isinstance(error.__cause__, asyncpg.ReadOnlySQLTransactionError):
                    # It was demoted, and is not the one to talk to any more: the next connections find its successor.
                    await self._expire()
                    refused += 1
                    if refused > 1 and interrupted_at is None:
                        raise
                elif isinstance(error, _Interrupted):
                    interrupted_at = now if interrupted_at is None else interrupted_at
                    self._careful_until = now + CAREFUL
                    await self._expire()
                if interrupted_at is not None:
                    if once or now - interrupted_at >= UNCERTAIN:
                        raise
                    await asyncio.sleep(TRY_AGAIN_AFTER)
                elif refused == 0:
                    raise

    async def _write(self, work: Work[T], *, may_be_done: bool) -> T:
        async with (
            self._acquire() as connection,
            _told(_Interrupted),
            writing(connection, self._compiler, self._connections, may_be_done=may_be_done) as tx,
        ):
            if self._monotonic() < self._careful_until:
                await tx.begin()
                await connection.execute(_BE_REPLICATED)
            return await work(tx)

    async def _expire(self) -> None:
        """Whatever happened to one connection happened to the others."""
        if self._pool is not None:
            await self._pool.expire_connections()

    async def read(self, work: Work[T], *, slow: bool = False, may_lag: bool = False) -> T:
        if may_lag and self._replica is not None:
            patience = min(PATIENCE, self._timeout)
            with contextlib.suppress(Away):
                return await self._replica.read(lambda found: work(Tx(found, self._compiler, patience)), patience)
        if slow:
            return await self._read_slowly(work)
        return await self._read_again(work)

    async def _read_slowly(self, work: Work[T]) -> T:
        """Slow reads leave half of the connections to the others."""
        try:
            await asyncio.wait_for(self._slow.acquire(), PATIENCE)
        except TimeoutError:
            raise Unavailable(TOO_LONG) from None
        try:
            return await self._read_again(work, min(PATIENCE, self._timeout))
        except Unavailable as error:
            if isinstance(error.__cause__, TimeoutError) and not isinstance(error, _Busy):
                raise Unavailable(TOO_LONG) from error
            raise
        finally:
            self._slow.release()

    async def _read_again(self, work: Work[T], timeout: float | None = None) -> T:
        try:
            return await self._read(work, timeout)
        except Unavailable as error:
            # A pooled connection may have died long ago, and its neighbours with it. Reading again changes nothing.
            cause = error.__cause__
            is_slow = timeout is not None and isinstance(cause, TimeoutError)
            if self._pool is None or not isinstance(cause, _GONE) or is_slow or isinstance(error, _Busy):
                raise
            await self._expire()
            return await self._read(work, timeout)

    async def _read(self, work: Work[T], timeout: float | None) -> T:
        async with self._acquire() as connection, _told(), self._connections.reading(connection):
            return await work(Tx(connection, self._compiler, timeout))

    @contextlib.asynccontextmanager
    async def _acquire(self) -> AsyncIterator[Connection]:
        pool = self._pool
        if pool is None:
            raise Unavailable("the store is closed")
        if self._connections.least <= pool.get_size() <= self._working < self._connections.most:
            await self._wait_in_line()
        self._working += 1
        try:
            connection = await self._take(pool)
            try:
                yield connection
            finally:
                with contextlib.suppress(*_NO_CONNECTION):  # what became of the work is known; the pool makes a new one
                    await pool.release(connection, timeout=self._timeout)
        finally:
            self._working -= 1
            self._call_the_next()

    async def _take(self, pool: asyncpg.Pool[Any]) -> PoolConnectionProxy[Any]:
        try:
            return await pool.acquire(timeout=self._timeout)
        except TimeoutError as error:
            if pool.get_idle_size() == 0 and pool.get_size() == pool.get_max_size():
                raise _Busy(f"all {pool.get_size()} connections to PostgreSQL are busy") from error
            raise _no_answer(error) from error
        except _NO_CONNECTION as error:
            raise _no_answer(error, _Interrupted if _ended_meanwhile(error) else Unavailable) from error

    async def _wait_in_line(self) -> None:
        """Until somebody gives a connection back, or for so long that another one is worth it. It is not kept for who
        was first in line: if somebody else was quicker, there is more to do than these can, and he makes another."""
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

    # --- time ------------------------------------------------------------------------------------------------------

    def now(self) -> Micros:
        return self._clock()

    async def _sample(self) -> None:
        async with self._acquire() as connection, _told():
            await self._read_clock(connection)

    async def _read_clock(self, connection: Connection) -> None:
        """Every new connection begins with it: it may lead to another server than those before."""
        before = self._clock()
        async with self._connections.reading(connection):
            now = await connection.fetchval(_CLOCK)
        self._clock.sample(now, before)

    async def _keep_sampling(self) -> None:
        """As long as the store is open, whatever happens: without fresh answers the clock falls behind for good."""
        failing = False
        while True:
            await asyncio.sleep(SAMPLE_EVERY)
            try:
                await self._sample()
                failing = False
            except Exception as error:
                if not failing:
                    _log.warning("the server's clock cannot be read", error=str(error) or type(error).__name__)
                failing = True

    # --- hints -----------------------------------------------------------------------------------------------------

    def listen(self, hint: Hint) -> None:
        self._hints.listeners.append(hint)

    def shout(self, topic: str) -> None:
        self._hints.shout(topic)


class _Hints:
    """Wake-ups between servers, over one connection of their own: LISTEN, and NOTIFY outside of every transaction,
    since that takes a lock of the whole cluster. What queued for a few milliseconds is one message."""

    def __init__(self, connect: Callable[[], Awaitable[asyncpg.Connection[Any]]]) -> None:
        self.listeners: list[Hint] = []
        self._connect = connect
        self._topics: dict[str, None] = {}
        self._something = asyncio.Event()

    def shout(self, topic: str) -> None:
        self._topics[topic] = None
        self._something.set()

    async def keep_listening(self) -> None:
        while True:
            try:
                await self._serve()
            except Exception as error:
                _log.warning("hints from other servers are interrupted", error=str(error) or type(error).__name__)
            await asyncio.sleep(RECONNECT_AFTER)

    async def _serve(self) -> None:
        connection = await self._connect()
        try:
            await connection.add_listener(CHANNEL, self._heard)
            while not connection.is_closed():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._something.wait(), SAMPLE_EVERY)
                if self._something.is_set():
                    await asyncio.sleep(SHOUT_AFTER)
                    topics, self._topics = self._topics, {}
                    self._something.clear()
                    await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, ",".join(topics))
                    await asyncio.sleep(REST_AFTER_SHOUT)
        finally:
            connection.terminate()

    def _heard(self, connection: Any, pid: int, channel: str, payload: object) -> None:
        if pid != connection.get_server_pid():
            for topic in str(payload).split(","):
                for hint in self.listeners:
                    hint(topic)


async def apply_schema(connection: Connection) -> None:
    """Inside a transaction, under an advisory lock: of two that start at once, the second finds the work done."""
    await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
    # Whoever waits for a lock on a table holds up everybody who comes after: better to try again a little later.
    await connection.execute("SET LOCAL lock_timeout = '2s'")
    await migrate(Tx(connection, Compiler()), POSTGRES, known())


async def make_room_for(connection: Connection, days: Iterable[Micros]) -> None:
    """Inside a transaction: partitions for history of these days."""
    tx = Tx(connection, Compiler())
    for day in days:
        await prepare(tx, day)


async def _nothing_to_reset(connection: Connection) -> None:
    """A transaction that broke off is rolled back by the pool. Nobody leaves anything else behind, so that asking the
    server to forget it would be a round trip for nothing."""


class _Busy(Unavailable):
    """Every connection is at work: there is nothing wrong with any of them, nor with what was asked."""


class _Interrupted(Unavailable):
    """The connection broke while a work was under way, which may have been committed, or about to begin."""


@contextlib.asynccontextmanager
async def _told(gone: type[Unavailable] = Unavailable) -> AsyncIterator[None]:
    """Tell what went wrong with the server in the words of the port; `gone`: with the connection to it."""
    try:
        yield
    except (*_GONE, *_OUT_OF_ORDER) as error:
        if isinstance(error, ValueError):  # asyncpg's word for an argument that is no such value
            raise
        is_gone = isinstance(error, _GONE) and not isinstance(error, TimeoutError)
        raise _no_answer(error, gone if is_gone else Unavailable) from error


def _ended_meanwhile(error: BaseException) -> bool:
    """Whether a connection was ended while it was being made, which says nothing about the next."""
    ended = (asyncpg.AdminShutdownError, asyncpg.ConnectionDoesNotExistError, asyncpg.InternalClientError)
    return isinstance(error, ended) and not isinstance(error, asyncpg.TargetServerAttributeNotMatched)


def _no_answer(error: Exception, kind: type[Unavailable] = Unavailable) -> Unavailable:
    return kind(f"PostgreSQL does not answer: {str(error) or type(error).__name__}")


_BE_REPLICATED: Final = "SELECT pg_logical_emit_message(true, 'timeball', 'again')"
"""A work that finds itself done writes nothing, so that its commit waits for nobody; but a commit that was interrupted
while it waited for a synchronous replica is visible before the replica has it. This makes the commit wait for both."""
_CLOCK: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
