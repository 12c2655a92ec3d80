"""Fixtures that run one suite on every adapter: `store` is each store in turn, `stores` are two servers' views of one
store.

All tests share one event loop, so that connections to PostgreSQL stay open from test to test: a new one has to learn
every table before its first answer, which would be half of what this suite costs.
"""

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import pytest_asyncio

from tests.support.builders import LEASE, worker
from tests.support.migrated import empty_postgres, migrate_postgres, sqlite_store, tamper_with_postgres
from tests.support.postgres import PostgresCluster
from timeball import system
from timeball.ports.store.store import Store
from timeball.stores.postgres.store import PostgresStore

HERE = Path(__file__).parent
ADAPTERS = ("sqlite", "postgres")
Connect = Callable[[], Awaitable[Store]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


class KeptConnections:
    """Those of the servers of a test, for the servers of the next one."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._drivers: list[Any] = []

    async def store(self, number: int) -> Store:
        """That of the server with this number. All that it knows, it knows from the database."""
        store = PostgresStore(self.dsn, monotonic=system.monotonic, min_connections=1)
        if number == len(self._drivers):
            self._drivers.append(store._db)
        store._db = self._drivers[number]
        store._db._wakeups.listeners.clear()
        store._db._wakeups.message_listeners.clear()
        store._db.watch_changes(None)
        if not store._db._pool.is_open:
            with mock.patch("timeball.stores.postgres.store._Driver._migrate"):  # it was migrated before
                await store.open()
        # Servers do that every second. After a long test of something else the lower bound of the time lags behind.
        await store._db._sample()
        return store

    async def close(self) -> None:
        for driver in self._drivers:
            await driver.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def kept_connections(postgres: PostgresCluster) -> AsyncIterator[KeptConnections]:
    """To a database that nobody else uses: others end all connections to theirs."""
    dsn = postgres.create_database()
    migrate_postgres(dsn)
    kept = KeptConnections(dsn)
    yield kept
    await kept.close()
    postgres.drop_database(dsn)


@pytest.fixture(params=ADAPTERS)
def kept(request: pytest.FixtureRequest) -> KeptConnections | None:
    """Those of PostgreSQL; SQLite needs none."""
    return request.getfixturevalue("kept_connections") if request.param == "postgres" else None


@pytest_asyncio.fixture(loop_scope="session")
async def connect(kept: KeptConnections | None, tmp_path: Path) -> AsyncIterator[Connect]:
    """Open the store once more, as another server would. SQLite has one server only: there it is the same again."""
    opened: list[Store] = []

    async def sqlite() -> Store:
        if not opened:
            opened.append(sqlite_store(tmp_path / "timeball.db"))
            await opened[0].open()
        return opened[0]

    async def postgres() -> Store:
        opened.append(await kept.store(len(opened)))
        return opened[-1]

    if kept is None:
        yield sqlite
        for each in opened:
            await each.close()
    else:
        await empty_postgres(kept.dsn)
        yield postgres


Tamper = Callable[[str], Awaitable[None]]


@pytest.fixture
def tamper(kept: KeptConnections | None, tmp_path: Path) -> Tamper:
    """Run a statement behind the store's back."""

    async def sqlite(statement: str) -> None:
        with contextlib.closing(sqlite3.connect(tmp_path / "timeball.db", timeout=10)) as connection:
            connection.execute(statement)
            connection.commit()

    async def postgres(statement: str) -> None:
        await tamper_with_postgres(kept.dsn, statement)

    return sqlite if kept is None else postgres


@pytest_asyncio.fixture(loop_scope="session")
async def stores(connect: Connect) -> tuple[Store, Store]:
    """The store as two servers see it."""
    return await connect(), await connect()


@pytest_asyncio.fixture(loop_scope="session")
async def store(connect: Connect) -> Store:
    """The store with a worker `w_1` that has a lease."""
    only = await connect()
    await only.register(worker("w_1"), LEASE)
    return only
