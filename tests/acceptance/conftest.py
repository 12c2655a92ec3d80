"""Two houses to live in: one process on SQLite, and a server with a worker apart on PostgreSQL."""

from collections.abc import Iterator

import pytest

from tests.support.postgres import PostgresCluster
from tests.support.processes import Api, running_server, running_up, start_worker


@pytest.fixture(scope="module", params=["up on SQLite", "server and worker on PostgreSQL"])
def api(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres: PostgresCluster
) -> Iterator[Api]:
    """Shared by the tests of a module: they look only at jobs of their own."""
    folder = tmp_path_factory.mktemp("house")
    if "SQLite" in request.param:
        with running_up(folder) as (_, api):
            api.await_workers(1)
            yield api
        return
    dsn = postgres.create_database()
    with running_server(folder, dsn) as (_, api), start_worker(folder, api, name="alice", slots=16):
        api.await_workers(1)
        yield api
    postgres.drop_database(dsn)
