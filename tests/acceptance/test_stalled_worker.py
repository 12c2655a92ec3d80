"""I7, I8, I29: a function that blocks its worker's event loop beyond the lease does not disturb the worker's other
runs.

Takes 20 s for each house, so only one of them is part of every test run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.postgres import PostgresCluster
from tests.support.processes import Api, running_server, running_up, start_worker, until
from tests.support.thorough import THOROUGH

LEASE = 15
BLOCKED = LEASE + 5
TASKS = "tests.acceptance.blocking_tasks"
HOUSES = ["up on SQLite", "worker of PostgreSQL", "up on PostgreSQL"]

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(params=HOUSES if THOROUGH else HOUSES[1:2])
def api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Api]:
    tmp_path.chmod(0o755)
    with ExitStack() as stack:
        if request.param == "up on SQLite":
            yield stack.enter_context(running_up(tmp_path, None, "--tasks", TASKS))[1]
            return
        postgres: PostgresCluster = request.getfixturevalue("postgres")
        dsn = postgres.create_database()
        stack.callback(postgres.drop_database, dsn)
        if request.param == "up on PostgreSQL":
            yield stack.enter_context(running_up(tmp_path, None, "--tasks", TASKS, "--store", dsn))[1]
            return
        api = stack.enter_context(running_server(tmp_path, dsn))[1]
        stack.enter_context(start_worker(tmp_path, api, name="blocked", tasks=TASKS))
        yield api


def test_a_shell_job_beside_a_blocked_loop_runs_once_and_is_not_killed(api: Api, tmp_path: Path) -> None:
    api.await_workers(1)
    file = tmp_path / "witness"
    command = f"echo start >> {file}; sleep {BLOCKED + 8}; echo end >> {file}"
    shell = api.create({"task": {"kind": "shell", "command": command}, "delivery": "at_most_once"})
    until(lambda: file.exists() and file.read_text(), "the shell job to start")
    blocking = api.create({"task": {"kind": "python", "function": "block"}, "parameters": {"seconds": BLOCKED}})
    for job in (shell, blocking):
        run = until(lambda job=job: api.ended_run_of(job), "the runs to end", patience=120)
        assert (run["status"], run["attempt"]) == ("succeeded", 1), run
    assert file.read_text() == "start\nend\n"
