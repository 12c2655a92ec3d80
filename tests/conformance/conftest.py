"""One suite, every adapter: `store` is each of them in turn, `stores` two servers' views of the same one."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import pytest

from tests.support.builders import LEASE, worker
from tests.support.postgres import PostgresCluster
from timeball import system
from timeball.ports.store import Store
from timeball.stores.postgres import PostgresStore
from timeball.stores.sql.tables import TABLES
from timeball.stores.sqlite import SqliteStore

ADAPTERS = ("sqlite", "postgres")
Connect = Callable[[], Awaitable[Store]]


@pytest.fixture(scope="session")
def migrated_dsn(postgres: PostgresCluster) -> Iterator[str]:
    """A database that has the schema already and is emptied for every test: much faster than a new one each."""
    dsn = postgres.create_database()
    with ThreadPoolExecutor(1) as apart:  # the first to ask for this may be inside a running loop
        apart.submit(asyncio.run, _migrate(dsn)).result()
    yield dsn
    postgres.drop_database(dsn)


async def _migrate(dsn: str) -> None:
    store = PostgresStore(dsn, monotonic=system.monotonic)
    await store.open()
    await store.close()


async def _empty(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    others = ("workers", "keys", "tasks", "turns", "leases", "daily_sums")
    await connection.execute(f"TRUNCATE {', '.join([*TABLES, *others])}")
    await connection.execute("ALTER SEQUENCE tokens RESTART")
    await connection.close()


@pytest.fixture(params=ADAPTERS)
async def connect(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Connect]:
    """Open the store once more, as another server would. SQLite has one server only: there it is the same again."""
    opened: list[Store] = []

    async def sqlite() -> Store:
        if not opened:
            opened.append(SqliteStore(tmp_path / "timeball.db", wall=system.wall, monotonic=system.monotonic))
            await opened[0].open()
        return opened[0]

    async def postgres() -> Store:
        opened.append(PostgresStore(dsn, monotonic=system.monotonic, min_connections=1))
        await opened[-1].open()
        return opened[-1]

    if request.param == "sqlite":
        yield sqlite
    else:
        dsn: str = request.getfixturevalue("migrated_dsn")
        await _empty(dsn)
        yield postgres
    for each in opened:
        await each.close()


Tamper = Callable[[str], Awaitable[None]]


@pytest.fixture
def tamper(connect: Connect, request: pytest.FixtureRequest, tmp_path: Path) -> Tamper:
    """Run a statement behind the store's back."""

    async def sqlite(statement: str) -> None:
        connection = sqlite3.connect(tmp_path / "timeball.db", timeout=10)
        connection.execute(statement)
        connection.commit()
        connection.close()

    async def postgres(statement: str) -> None:
        connection = await asyncpg.connect(request.getfixturevalue("migrated_dsn"))
        await connection.execute(statement)
        await connection.close()

    return sqlite if request.node.callspec.params["connect"] == "sqlite" else postgres


@pytest.fixture
async def stores(connect: Connect) -> tuple[Store, Store]:
    """The store as two servers see it."""
    return await connect(), await connect()


@pytest.fixture
async def store(connect: Connect) -> Store:
    """The store with a worker `w_1` that has a lease."""
    only = await connect()
    await only.register(worker("w_1"), LEASE)
    return only
