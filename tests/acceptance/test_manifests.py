"""Jobs in files, with a real `timeball up`: a crontab is imported, changed and applied."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.processes import KEY, running_up, until
from timeball.cli.root import timeball

CRONTAB = Path(__file__).parents[1] / "support" / "crontab.txt"


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(timeball, arguments, prog_name="timeball")
    assert result.exit_code == code, result.output
    return result.stdout


def test_a_crontab_is_imported_changed_and_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIMEBALL_TOKEN", KEY)
    with running_up(tmp_path) as (_, api):
        monkeypatch.setenv("TIMEBALL_URL", api.url)
        run("import", "crontab", str(CRONTAB), "--tz", "UTC", "--to", "jobs.yaml", code=1)
        assert run("apply", "jobs.yaml").splitlines()[-1] == "40 created, 0 unchanged"
        assert run("apply", "jobs.yaml") == "40 unchanged\n"

        file = tmp_path / "jobs.yaml"
        file.write_text(file.read_text().replace("0 2 * * *", "0 3 * * *"))
        planned = run("plan", "jobs.yaml", code=2)
        assert re.search(r"fire moves from 02:00 UTC to 03:00 UTC, and \d more move until .*; none is dropped", planned)
        assert run("apply", "jobs.yaml").splitlines()[-1] == "1 changed, 39 unchanged"
        assert run("plan", "jobs.yaml") == "nothing to do, 40 unchanged\n"

        file.write_text(
            "jobs: [{name: hello, schedule: {type: immediate}, task: {kind: shell, env: {WHO: file},"
            " command: \"printf '%s\\\\n' hello from | { cat; echo $WHO; }\"}}]"
        )
        run("apply", "jobs.yaml")
        [job] = api.call("GET", "/v1/jobs", params={"name": "hello"})["items"]
        ended = until(lambda: api.ended_run_of(job["jobId"]), "the job to run")
        assert api.call("GET", f"/v1/runs/{ended['runId']}/logs") == "hello\nfrom\nfile\n"
        assert run("apply", "jobs.yaml") == "1 unchanged\n", "a one-shot that is over is not run again"
