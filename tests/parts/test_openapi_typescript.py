"""openapi-typescript makes types from `/openapi.json` with which a program creates a job and reads it."""

import json
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.parts.catalog import require
from tests.support.processes import KEY, running_up
from timeball.api.app import ROUTES
from timeball.api.documentation import openapi

PROGRAM = Path(__file__).with_name("program.ts")
STRICT = ("--strict", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom")


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_types_are_made_from_the_document(tmp_path: Path) -> None:
    generate = require("openapi-typescript")
    (tmp_path / "openapi.json").write_bytes(msgspec.json.encode(openapi.document(ROUTES, "1.2.3")))
    run(generate, "openapi.json", "--output", "timeball.ts", cwd=tmp_path)
    made = (tmp_path / "timeball.ts").read_text("utf-8")
    for route in ROUTES:
        assert f'"{route.path}": {{' in made


@pytest.mark.parts
def test_a_typed_program_creates_a_job_and_reads_it(tmp_path: Path) -> None:
    generate = require("openapi-typescript")
    folder = tmp_path / "program"
    folder.mkdir()
    shutil.copy(PROGRAM, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    with running_up(tmp_path) as (_, api):
        (folder / "openapi.json").write_text(api.http.get("/openapi.json").text)
        run(generate, "openapi.json", "--default-non-nullable=false", "--output", "timeball.ts", cwd=folder)
        run(generate.with_name("tsc"), *STRICT, PROGRAM.name, cwd=folder)
        read = json.loads(run("node", "program.js", api.url, KEY, cwd=folder))
        kept = api.call("GET", f"/v1/jobs/{read['jobId']}")
    assert (read["jobId"], read["name"], read["task"]) == (kept["jobId"], "typed", kept["task"])
    assert kept["task"]["command"] == "true"
