"""A tenant is deleted although the server is killed with kill -9 again and again, on both stores. The lease of a killed
server, which would last for minutes, ends with it here."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.postgres import PostgresCluster
from tests.support.processes import Api, Process, data_dir, free_port, until

JOBS = 500
KILLS = 3
BATCH = [
    {"name": f"later {number}", "task": {"kind": "shell", "command": "true"}, "tags": ["t"],
     "schedule": {"type": "date", "expression": "2036-05-01T10:00:00Z"}}
    for number in range(JOBS)
]  # fmt: skip

pytestmark = pytest.mark.timeout(300)
Ask = Callable[[str], Any]
"""Executes a statement in the store, and returns the first value of the first row."""
COUNT_JOBS = "SELECT COUNT(*) FROM jobs"
END_LEASE = "UPDATE leases SET until = 0 RETURNING until"


@pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.parts), "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[list[str], Ask]]:
    """The command that starts a server, and its store."""
    common = ["--data-dir", str(data_dir(tmp_path)), "--port", str(free_port())]
    if request.param == "sqlite":

        def ask(statement: str) -> Any:
            with contextlib.closing(sqlite3.connect(data_dir(tmp_path) / "timeball.db", timeout=10)) as connection:
                [[value]] = connection.execute(statement).fetchall()
                connection.commit()
                return value

        yield ["up", *common], ask
        return
    postgres: PostgresCluster = request.getfixturevalue("postgres")
    dsn = postgres.create_database()
    yield ["server", *common, "--store", dsn], lambda statement: postgres.fetch_value(statement, dsn)
    postgres.drop_database(dsn)


def started(stack: contextlib.ExitStack, folder: Path, command: list[str]) -> tuple[Process, Api]:
    process = stack.enter_context(Process(folder, command))
    api = stack.enter_context(Api(f"http://127.0.0.1:{command[command.index('--port') + 1]}"))
    api.await_ready(process)
    return process, api


def fill(api: Api, tenant: str) -> str:
    api.call("POST", "/v1/tenants", expect=201, json={"tenantId": tenant})
    key = api.call("POST", f"/v1/tenants/{tenant}/api-keys", expect=201, json={"role": "admin"})["key"]
    with Api(api.url, key) as own:
        answer = own.call("POST", "/v1/jobs:batch", json=BATCH)
        assert all("jobId" in each for each in answer["items"])
        own.call("PUT", "/v1/tasks/greet", expect=(200, 201), json={"kind": "shell", "command": "true"})
    return str(key)


def test_a_deletion_survives_kills(tmp_path: Path, store: tuple[list[str], Ask]) -> None:
    command, ask = store
    with contextlib.ExitStack() as stack:
        process, api = started(stack, tmp_path, command)
        gone, other = fill(api, "acme"), fill(api, "other")
        assert ask(COUNT_JOBS) == 2 * JOBS
        api.call("DELETE", "/v1/tenants/acme", expect=202)
        progress: list[Any] = []
        for _ in range(KILLS):
            until(partial(_has_progressed, api, progress), "progress of the deletion")
            process.kill()
            process.popen.wait()
            ask(END_LEASE)
            process, api = started(stack, tmp_path, command)
            with Api(api.url, gone) as own:
                own.call("GET", "/v1/jobs", expect=401)
        until(partial(_is_gone, api), "the end of the deletion")
        assert progress, "the server was killed during the deletion, which may be over before the last kill"
        assert ask(COUNT_JOBS) == JOBS
        with Api(api.url, other) as own:
            assert own.call("GET", "/v1/jobs?limit=1")["items"]
        log = api.call("GET", "/v1/audit-log?scope=system")["items"]
        [receipt] = [each for each in log if each["action"] == "tenant.deleted"]
        assert receipt["after"]["deleted"]["jobs"] == receipt["after"]["deleted"]["job_tags"] == JOBS
        assert receipt["actor"]["name"] == "admin"


def _is_gone(api: Api) -> bool:
    return api.http.get("/v1/tenants/acme").status_code == 404


def _has_progressed(api: Api, progress: list[Any]) -> bool:
    """True if the deletion is further than when it was last looked at, or over."""
    answer = api.http.get("/v1/tenants/acme")
    if answer.status_code == 404:
        return True
    found = (answer.json()["deletion"]["phase"], answer.json()["deletion"]["deleted"])
    if found in progress:
        return False
    progress.append(found)
    return True
