"""One suite, every adapter: `store` is each of them in turn, `stores` two servers' views of the same one."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.builders import LEASE, worker
from tests.support.postgres import PostgresCluster
from timeball import system
from timeball.ports.store import Store
from timeball.stores.postgres import PostgresStore
from timeball.stores.sqlite import SqliteStore

ADAPTERS = ("sqlite", "postgres")


@pytest.fixture(scope="session")
def migrated_template(postgres: PostgresCluster) -> Iterator[str]:
    """The name of a database that has the schema already: copying it is faster than migrating."""
    dsn = postgres.create_database()
    with ThreadPoolExecutor(1) as apart:  # this fixture may be first asked for inside a running loop
        apart.submit(asyncio.run, _migrate(dsn)).result()
    yield dsn.rpartition("/")[2].partition("?")[0]
    postgres.drop_database(dsn)


async def _migrate(dsn: str) -> None:
    store = PostgresStore(dsn, monotonic=system.monotonic)
    await store.open()
    await store.close()


@pytest.fixture(params=ADAPTERS)
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Store, Store]]:
    """The store as two servers see it. SQLite has one server only, so there it is twice the same."""
    if request.param == "sqlite":
        only = SqliteStore(tmp_path / "timeball.db", wall=system.wall, monotonic=system.monotonic)
        await only.open()
        yield only, only
        await only.close()
        return
    cluster: PostgresCluster = request.getfixturevalue("postgres")
    dsn = cluster.create_database(template=request.getfixturevalue("migrated_template"))
    pair = PostgresStore(dsn, monotonic=system.monotonic), PostgresStore(dsn, monotonic=system.monotonic)
    for each in pair:
        await each.open()
    yield pair
    for each in pair:
        await each.close()
    cluster.drop_database(dsn)


@pytest.fixture
async def store(stores: tuple[Store, Store]) -> Store:
    """The store with a worker `w_1` that has a lease."""
    await stores[0].register(worker("w_1"), LEASE)
    return stores[0]
