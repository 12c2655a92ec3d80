"""Two houses to live in: one process on SQLite, and a server with a worker apart on PostgreSQL."""

from collections.abc import Iterator

import pytest

from tests.support.migrated import migrate_postgres, renew_postgres
from tests.support.postgres import PostgresCluster
from tests.support.processes import Api, running_server, running_up, start_worker


@pytest.fixture(scope="module", params=["up on SQLite", "server and worker on PostgreSQL"])
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Shared by the tests of a module: they look only at jobs of their own."""
    folder = tmp_path_factory.mktemp("house")
    if "SQLite" in request.param:
        with running_up(folder) as (_, api):
            api.await_workers(1)
            yield api
        return
    dsn: str = request.getfixturevalue("migrated_dsn")
    renew_postgres(dsn)
    with running_server(folder, dsn) as (_, api), start_worker(folder, api, name="alice", slots=16):
        api.await_workers(1)
        yield api


@pytest.fixture(scope="session")
def _spare_dsn(postgres: PostgresCluster) -> Iterator[str]:
    dsn = postgres.create_database()
    migrate_postgres(dsn)
    yield dsn
    postgres.drop_database(dsn)


@pytest.fixture
def postgres_dsn(_spare_dsn: str) -> str:
    """A database for this test alone, as a server left it that has just migrated it."""
    renew_postgres(_spare_dsn)
    return _spare_dsn
