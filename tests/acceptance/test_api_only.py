"""A server without loops, whose role may not change tables, beside a server with loops."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import PostgresCluster
from tests.support.processes import Process, data_dir, free_port, running_server, start_worker, until

ROLE = "timeball_api_only"
GRANTS = (
    f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {ROLE}",
    f"GRANT SELECT, USAGE, UPDATE ON ALL SEQUENCES IN SCHEMA public TO {ROLE}",
)
"""The grants of docs/howto/fleet.md."""
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "fleet.md"


@pytest.fixture
def role(postgres: PostgresCluster, postgres_dsn: str) -> Iterator[str]:
    """The DSN of a role that may not change tables."""
    postgres.execute(f"CREATE ROLE {ROLE} LOGIN")
    for grant in GRANTS:
        assert grant.replace(ROLE, "timeball_app") in PAGE.read_text()
        postgres.execute(grant, postgres_dsn)
    yield postgres_dsn.replace("timeball@", f"{ROLE}@", 1)
    postgres.execute(f"DROP OWNED BY {ROLE}", postgres_dsn)
    with contextlib.suppress(Exception):
        postgres.execute(f"DROP ROLE {ROLE}")


@pytest.mark.xdist_group("api-only")
def test_a_server_without_loops_accepts_and_another_one_fires(tmp_path: Path, postgres_dsn: str, role: str) -> None:
    now = {"task": {"kind": "shell", "command": "true"}}
    (tmp_path / "api").mkdir()
    with running_server(tmp_path / "api", role, None, "--no-migrate", "--no-loops") as (_, api):
        assert "planner" not in api.call("GET", "/readyz")["checks"]
        early = api.create(now)
        with running_server(tmp_path, postgres_dsn) as (_, full), start_worker(tmp_path, full, name="w", slots=4):
            assert "planner" in full.call("GET", "/readyz")["checks"]
            later = api.create(now)
            for job_id in (early, later):
                until(lambda job_id=job_id: api.ended_run_of(job_id), "its run to end")
                assert api.ended_run_of(job_id)["status"] == "succeeded"


def test_a_server_on_sqlite_needs_its_loops(tmp_path: Path) -> None:
    arguments = ["server", "--port", str(free_port()), "--data-dir", str(data_dir(tmp_path)), "--no-loops"]
    with Process(tmp_path, arguments) as process:
        assert process.popen.wait(60) == 2
        assert "--no-loops needs PostgreSQL" in process.output
