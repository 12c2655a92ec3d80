"""A script job runs only the code that the worker's operator chose (I31): no variable of the job makes it run other
code."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.unit.executing import RecordedAttempt
from timeball.domain.run.lifecycle import Failed, Succeeded
from timeball.domain.task import script_environment
from timeball.domain.task.task import Script
from timeball.executors.guard.guard import ProcessGuard
from timeball.executors.process.process import Processes
from timeball.executors.script import ScriptExecutor


@pytest_asyncio.fixture
async def scripts(tmp_path: Path) -> AsyncIterator[ScriptExecutor]:
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "a.py").write_text("import warnings; print('chosen')")
    (folder / "a.pl").write_text("print 'chosen';")
    (folder / "a.js").write_text("console.log('chosen')")
    (folder / "a.sh").write_text("echo chosen; date > /dev/null; cat /dev/null")
    (folder / "env").write_text("#!/usr/bin/env sh\necho chosen")
    (folder / "env").chmod(0o755)
    guard = ProcessGuard()
    yield ScriptExecutor(Processes(guard), folder)
    await guard.close()


def attacks(folder: Path) -> list[tuple[str, dict[str, str]]]:
    """Scripts, and environments with which they would run a command of the job's."""
    mark = folder / "mark"
    evil = folder / "evil"
    evil.mkdir()
    for name in ("python3", "node", "perl", "sh", "date", "cat", "antigravity.py", "sitecustomize.py"):
        (evil / name).write_text(f"#!/bin/sh\ntouch {mark}\n" if "." not in name else f"open('{mark}', 'w')\n")
        (evil / name).chmod(0o755)
    (evil / "evil.js").write_text(f"require('fs').writeFileSync('{mark}', '')")
    (evil / "Evil.pm").write_text(f"open(F, '>', '{mark}'); 1;")
    site = evil / ".local/lib"
    site.mkdir(parents=True)
    found = [
        ("a.py", {"PYTHONPATH": str(evil)}),
        ("a.py", {"PYTHONWARNINGS": "all:0:antigravity.x:0:0", "BROWSER": f"sh -c 'touch {mark}' %s"}),
        ("a.sh", {"PATH": str(evil)}),
        ("env", {"PATH": str(evil)}),
    ]
    if shutil.which("perl"):
        found += [
            ("a.pl", {"PERL5OPT": "-Mbase;print(`touch$IFS" + f"{mark}`)"}),
            ("a.pl", {"PERL5OPT": "-MEvil", "PERL5LIB": str(evil)}),
            ("a.pl", {"PATH": str(evil)}),
        ]
    if shutil.which("node"):
        found += [("a.js", {"NODE_OPTIONS": f"--require {evil / 'evil.js'}"})]
    return found


async def test_no_variable_of_a_stored_script_job_runs_a_command(scripts: ScriptExecutor, tmp_path: Path) -> None:
    """Such jobs may have been stored before they were refused."""
    for script, env in attacks(tmp_path):
        outcome = await scripts.execute(RecordedAttempt(Script(script=script, env=env)))
        assert not (tmp_path / "mark").exists(), f"{script} with {env}"
        assert isinstance(outcome, Failed)
        assert next(iter(env)) in outcome.failure.message


async def test_a_script_gets_variables_of_its_own(scripts: ScriptExecutor) -> None:
    names = "REGION debug NODE_ENV PYTHONUNBUFFERED LANG LC_ALL API_URL https_proxy PATTERN TMPDIR ENVIRONMENT HOMEPAGE"
    env = dict.fromkeys([*names.split(), "GIT_AUTHOR_NAME", "JAVASCRIPT", "AWS_PROFILE", "AWS_REGION"], "C")
    attempt = RecordedAttempt(Script(script="a.sh", env=env))
    assert await scripts.execute(attempt) == Succeeded()
    assert attempt.text() == "chosen\n"


def test_variables_that_lead_usual_tools_elsewhere_are_refused() -> None:
    names = "TIMEBALL_URL TIMEBALL_TOKEN TIMEBALL_RUN_ID timeball_config DOCKER_HOST DOCKER_CONTEXT RIPGREP_CONFIG_PATH"
    names += " VIMINIT MAVEN_OPTS MAVEN_ARGS GRADLE_OPTS SYSTEMD_EDITOR SYSTEMD_PAGER"
    names += " AWS_ENDPOINT_URL AWS_ENDPOINT_URL_S3"
    assert script_environment.refused(names.split()) == names.split()
