"""Fixtures for every test, first of all a real PostgreSQL.

One server serves the whole test run. Under xdist the controlling process starts it and hands its DSN to the
workers; without xdist it starts with the first test that asks for it. `TIMEBALL_TEST_POSTGRES` names a server
to use instead; its user must be allowed to create databases.
"""

import gc
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.compiled import compile_all
from tests.support.migrated import END_OTHER_SESSIONS, migrate_postgres
from tests.support.postgres import PRISTINE, PostgresCluster, PostgresServer
from tests.support.run_order import best_order

DSN_VARIABLE = "TIMEBALL_TEST_POSTGRES"
WORKER_KEY = "timeball_postgres_dsn"
MAX_CONNECTIONS = 300
USUAL_UMASK = 0o022

# How long something takes says more about the machine than about the code.
settings.register_profile("timeball", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("timeball")

_compiled = pytest.StashKey[bool]()
_shared_server = pytest.StashKey[PostgresServer]()


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # while tests are collected: almost nothing of that becomes garbage
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts background commands with SIGINT ignored. Processes of the tests would inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    worker_input: dict[str, str] = getattr(config, "workerinput", {})
    if pristine := worker_input.get(PRISTINE):
        os.environ[PRISTINE] = pristine


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests in the order that suits parallel processes."""
    if hasattr(config, "workerinput"):
        items[:] = [items[at] for at in best_order([item.nodeid for item in items])]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Give each test the usual umask. A server in the process of an earlier test has set a private one, with which jobs
    of other users cannot read the files that a test writes for them."""
    os.umask(USUAL_UMASK)


def pytest_collection_finish() -> None:
    """What there is now stays to the end: nobody needs to look through it for garbage any more."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Called by xdist in the controlling process, once for each worker."""
    stash = node.config.stash
    if _compiled not in stash:
        stash[_compiled] = True
        compile_all(node.config)
    if DSN_VARIABLE not in os.environ and _shared_server not in stash:
        stash[_shared_server] = PostgresServer.start(max_connections=MAX_CONNECTIONS, first=True)
        node.config.add_cleanup(stash[_shared_server].close)
    node.workerinput[PRISTINE] = os.environ.get(PRISTINE, "")
    node.workerinput[WORKER_KEY] = os.environ.get(DSN_VARIABLE) or stash[_shared_server].admin_dsn


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[PostgresCluster]:
    """The server that all tests share: make databases in it, do not stop it."""
    worker_input: dict[str, str] = getattr(request.config, "workerinput", {})
    dsn = worker_input.get(WORKER_KEY) or os.environ.get(DSN_VARIABLE)
    if dsn:
        yield PostgresCluster(dsn)
        return
    with PostgresServer.start(max_connections=MAX_CONNECTIONS) as server:
        yield server


@pytest.fixture(scope="session")
def _blank_dsn(postgres: PostgresCluster) -> Iterator[str]:
    dsn = postgres.create_database()
    yield dsn
    postgres.drop_database(dsn)


@pytest.fixture
def postgres_dsn(postgres: PostgresCluster, _blank_dsn: str) -> str:
    """The DSN of an empty database for this test alone. It is the same one as before, made empty: to create another one
    and to drop it would cost PostgreSQL six times as much."""
    postgres.execute(f"{END_OTHER_SESSIONS}; DROP SCHEMA public CASCADE; CREATE SCHEMA public", _blank_dsn)
    return _blank_dsn


@pytest.fixture(scope="session")
def migrated_dsn(postgres: PostgresCluster) -> Iterator[str]:
    """A database that has the schema already. Whoever uses it empties it first: much faster than a new one each."""
    dsn = postgres.create_database()
    migrate_postgres(dsn)
    yield dsn
    postgres.drop_database(dsn)


@pytest.fixture
def private_postgres() -> Iterator[PostgresServer]:
    """A server for this test alone, to stop, restart or crash."""
    with PostgresServer.start() as server:
        yield server
