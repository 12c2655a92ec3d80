"""The cost of a route and of a job field: hand-written source files, besides migration, documentation and tests."""

from pathlib import Path

import pytest

from tests.architecture.patched import Patched

MAX_ROUTE_FILES = 10
MAX_JOB_FIELD_FILES = 4

ROUTE = """
import asyncio, sys
from pathlib import Path

from click.testing import CliRunner

from tests.architecture import test_clients
from tests.support.api import ADMIN
from tests.support.live_server import LiveServer
from timeball import AsyncClient, Client
from timeball.api.documentation import openapi
from timeball.api.app import ROUTES
from timeball.cli.root import timeball as command

assert "/v1/api-keys/{keyId}/rename" in openapi.document(ROUTES, "0")["paths"]
test_clients.test_they_have_the_same_methods()
test_clients.test_a_method_is_called_in_the_same_way_and_answers_the_same("rename_key")


async def rename(url, key_id):
    async with AsyncClient(url, ADMIN) as client:
        return await client.rename_key(key_id, "third")


with LiveServer(Path(sys.argv[1])) as server, Client(server.url, ADMIN) as client:
    key = client.create_key(name="first")
    renamed = client.rename_key(key.key_id, "second")
    assert (renamed.old_name, renamed.name) == ("first", "second"), renamed
    renamed = asyncio.run(rename(server.url, key.key_id))
    assert (renamed.old_name, renamed.name) == ("second", "third"), renamed
    target = {"TIMEBALL_URL": server.url, "TIMEBALL_TOKEN": ADMIN}
    done = CliRunner().invoke(command, ["keys", "rename", key.key_id, "fourth"], env=target, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(command, ["keys", "list"], env=target, catch_exceptions=False)
    assert "fourth" in done.output and "third" not in done.output, done.output
    done = CliRunner().invoke(command, ["keys", "rename", "k_none", "fifth"], env=target)
    assert done.exit_code != 0, done.output
"""

JOB_FIELD = """
import sys
from pathlib import Path

import msgspec
from click.testing import CliRunner

from tests.support.api import ADMIN
from tests.support.live_server import LiveServer
from timeball import Client
from timeball.api.documentation import openapi
from timeball.api.app import ROUTES
from timeball.cli.root import timeball as command
from timeball.client.requests import jobs as requests
from timeball.jobspec import job_reader
from timeball.manifests import diff

PAGE = "https://example.org/what-to-do"
schemas = openapi.document(ROUTES, "0")["components"]["schemas"]
for name in ("CanonicalJob", "JobChange", "JobView", "NewWorkflow", "WorkflowView"):
    assert "runbook" in schemas[name]["properties"], name

with LiveServer(Path(sys.argv[1])) as server, Client(server.url, ADMIN) as client:
    job = client.create_job("nightly", shell="true", every="1d", runbook=PAGE)
    assert job.runbook == client.job(job.job_id).runbook == PAGE
    shown = msgspec.json.decode(client.send(requests.job(job.job_id)))
    assert shown["runbook"] == PAGE

    known = diff.known(shown)
    declared = diff.document(known.spec)
    assert declared["runbook"] == PAGE
    assert job_reader.read_job(msgspec.json.encode(declared)).spec == known.spec
    other = job_reader.read_job(msgspec.json.encode({**declared, "runbook": None})).spec
    assert diff.patch(other, known.spec) == {"runbook": PAGE}

    target = {"TIMEBALL_URL": server.url, "TIMEBALL_TOKEN": ADMIN}
    say = lambda *words: CliRunner().invoke(command, words, env=target, catch_exceptions=False)
    assert PAGE in say("jobs", "show", "nightly").output
    assert say("jobs", "update", "nightly", "--runbook", "none").exit_code == 0
    assert client.job(job.job_id).runbook is None
    assert "runbook" not in say("jobs", "show", "nightly").output
    assert say("jobs", "update", "nightly", "--runbook", PAGE).exit_code == 0
    assert client.update_job(job.job_id, timeout="5m").runbook == PAGE
    assert client.update_job(job.job_id, runbook=None).runbook is None
"""

FORGOTTEN = """
from tests.architecture import test_job_fields as fields

checks = [
    fields.test_the_api_shows_every_field_and_the_client_reads_it,
    fields.test_the_client_says_every_field,
    lambda: fields.test_a_field_can_be_said_on_the_command_line("runbook"),
]
failed = 0
for check in checks:
    try:
        check()
    except AssertionError:
        failed += 1
print(failed)
"""


def test_a_route_with_a_command_and_client_methods_costs_ten_files(tmp_path: Path) -> None:
    patched = Patched("route", tmp_path)
    patched.run(ROUTE, str(tmp_path))
    assert len(patched.files) <= MAX_ROUTE_FILES, patched.files


def test_a_job_field_costs_four_files(tmp_path: Path) -> None:
    patched = Patched("job_field", tmp_path)
    patched.run(JOB_FIELD, str(tmp_path))
    assert patched.run(FORGOTTEN).strip() == "0"
    assert len(patched.files) <= MAX_JOB_FIELD_FILES, patched.files


@pytest.mark.parametrize(
    "file", ["domain/job/job.py", "jobspec/spec_view.py", "client/models/job.py", "cli/options/job_options.py"]
)
def test_a_place_that_was_forgotten_is_found(tmp_path: Path, file: str) -> None:
    patched = Patched("job_field", tmp_path, without=[file])
    assert file not in patched.files
    assert patched.run(FORGOTTEN).strip() != "0"
