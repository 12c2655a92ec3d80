"""One suite, every adapter: `store` is each of them in turn, `stores` two servers' views of the same one."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from unittest import mock

import pytest

from tests.support.builders import LEASE, worker
from tests.support.migrated import empty_postgres, sqlite_store, tamper_with_postgres
from timeball import system
from timeball.ports.store import Store
from timeball.stores.postgres import PostgresStore

ADAPTERS = ("sqlite", "postgres")
Connect = Callable[[], Awaitable[Store]]


@pytest.fixture(params=ADAPTERS)
async def connect(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Connect]:
    """Open the store once more, as another server would. SQLite has one server only: there it is the same again."""
    opened: list[Store] = []

    async def sqlite() -> Store:
        if not opened:
            opened.append(sqlite_store(tmp_path / "timeball.db"))
            await opened[0].open()
        return opened[0]

    async def postgres() -> Store:
        opened.append(PostgresStore(dsn, monotonic=system.monotonic, min_connections=1))
        with mock.patch("timeball.stores.postgres._Driver._migrate"):  # it was migrated before
            await opened[-1].open()
        return opened[-1]

    if request.param == "sqlite":
        yield sqlite
    else:
        dsn: str = request.getfixturevalue("migrated_dsn")
        await empty_postgres(dsn)
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
        await tamper_with_postgres(request.getfixturevalue("migrated_dsn"), statement)

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
