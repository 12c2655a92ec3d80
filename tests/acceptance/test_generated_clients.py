"""A client that a tool generates from `/openapi.json` works with a server, without a line written by hand.

openapi-typescript, which needs Node, generates one in `tests/parts`.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import KEY, Api, until

PACKAGE = "timeball_generated"
COMMAND = "echo generated"

Modules = Callable[[str], Any]


@pytest.fixture
def generated(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Modules]:
    """The modules of a package that openapi-python-client made from the document of the server."""
    (tmp_path / "config.yml").write_text("post_hooks: []\n")  # formatting would take half a second
    generate = [sys.executable, "-m", "openapi_python_client", "generate", "--url", f"{api.url}/openapi.json"]
    options = ["--meta", "none", "--output-path", str(tmp_path / PACKAGE), "--config", str(tmp_path / "config.yml")]
    done = subprocess.run([*generate, *options, "--fail-on-warning"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda name: importlib.import_module(f"{PACKAGE}.{name}")
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.mark.parametrize("api", ["up on SQLite"], indirect=True)
def test_a_generated_python_client_creates_a_job_and_reads_it_and_its_run(api: Api, generated: Modules) -> None:
    models, jobs = generated("models"), "api.jobs"
    client = generated("client").AuthenticatedClient(api.url, KEY, raise_on_unexpected_status=True, timeout=30)
    job = models.CanonicalJob(
        name="generated",
        task=models.Shell(kind=models.ShellKind.SHELL, command=COMMAND),
        schedule=models.Immediate(type_=models.ImmediateType.IMMEDIATE),
    )
    with client:
        created = generated(f"{jobs}.post_jobs").sync(client=client, body=job)
        assert isinstance(created, models.JobView), created
        read = generated(f"{jobs}.get_jobs_job_id").sync(created.job_id, client=client)
        assert isinstance(read, models.JobView)
        assert (read.name, read.task.command) == ("generated", COMMAND)
        assert read.schedule.type_ == "immediate"

        until(lambda: api.call("GET", f"/v1/jobs/{created.job_id}")["status"] == "completed", "the job to end")
        runs = generated(f"{jobs}.get_jobs_job_id_runs").sync(created.job_id, client=client)
        assert [run.status for run in runs.items] == ["succeeded"]

        missing = generated(f"{jobs}.get_jobs_job_id").sync(f"j_{'0' * 28}", client=client)
        assert isinstance(missing, models.Problem)
        assert missing.code == "not_found"

        read = generated(f"{jobs}.get_jobs_job_id").sync(created.job_id, client=client)
        assert read.to_dict() == api.call("GET", f"/v1/jobs/{created.job_id}"), "a class lost something"
