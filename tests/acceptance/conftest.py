"""Two houses (deployments that a test runs on): one process on SQLite, and a server with a separate worker on
PostgreSQL."""

from collections.abc import Iterator

import pytest

from tests.support.migrated import migrate_postgres, renew_postgres
from tests.support.postgres import PostgresCluster
from tests.support.processes import Api, running_server, running_up, start_worker


@pytest.fixture(scope="package", params=["up on SQLite", "server and worker on PostgreSQL"])
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Shared by all tests here: they look only at jobs of their own."""
    folder = tmp_path_factory.mktemp("house")
    if "SQLite" in request.param:
        with running_up(folder) as (_, api):
            api.await_workers(1)
            yield api
        return
    postgres: PostgresCluster = request.getfixturevalue("postgres")
    dsn = postgres.create_database()
    with running_server(folder, dsn) as (_, api), start_worker(folder, api, name="alice", slots=16):
        api.await_workers(1)
        yield api
    postgres.drop_database(dsn)


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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of a house run in the same process, so that it is built once."""
    for item in items:
        parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if "api" in parameters:
            item.add_marker(pytest.mark.xdist_group(str(parameters["api"])))
