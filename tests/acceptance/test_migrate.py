"""I2, I5, I7, I8: a store with running jobs is moved from one machine to a fleet. The promises are checked with files
that the jobs write."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import (
    WAIT_SECONDS,
    Api,
    Process,
    data_dir,
    free_port,
    is_alive,
    running_server,
    running_up,
    start_worker,
    until,
)

WITNESS = 'echo "$TIMEBALL_RUN_ID $TIMEBALL_ATTEMPT $TIMEBALL_FENCING_TOKEN $$" >> {file}; '

pytestmark = pytest.mark.timeout(300)


def witness_job(file: Path, then: str, **more: Any) -> dict[str, Any]:
    return {"task": {"kind": "shell", "command": WITNESS.format(file=file) + then}, **more}


def lines(file: Path) -> list[list[str]]:
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def ended(folder: Path, arguments: list[str]) -> Process:
    with Process(folder, arguments) as process:
        process.popen.wait(WAIT_SECONDS)
    return process


def instants(api: Api, job_id: str) -> list[datetime]:
    runs = api.call("GET", f"/v1/jobs/{job_id}/runs", params={"limit": 500})
    return sorted(datetime.fromisoformat(run["fireTime"]) for run in runs["items"])


def test_no_fire_is_lost_or_doubled_by_the_move(tmp_path: Path, postgres_dsn: str) -> None:
    tmp_path.chmod(0o755)
    every_second = {"type": "cron", "expression": "* * * * * *"}
    files = {name: tmp_path / name for name in ("tick", "long", "once", "retry", "turn")}
    with running_up(tmp_path) as (process, api):
        api.await_workers(1)
        ticking = api.create(witness_job(files["tick"], "true", schedule=every_second, overlap="allow"))
        until(lambda: len(lines(files["tick"])) >= 2, "some fires")
        api.create(witness_job(files["long"], "sleep 3600", orderingKey="k"))
        once = api.create(witness_job(files["once"], "sleep 3600", delivery="at_most_once"))
        # On a busy machine it takes seconds until the kill, which must come before the retry.
        retried = api.create(witness_job(files["retry"], "exit $((TIMEBALL_ATTEMPT < 2))", retry={"backoff": ["15s"]}))
        until(lambda: all(lines(files[name]) for name in ("long", "once", "retry")), "everything to start")
        waiting = api.create(witness_job(files["turn"], "true", orderingKey="k"))
        until(lambda: api.run_of(retried)["status"] == "retrying", "it to fail")
        in_use = ended(tmp_path, ["migrate", "--to", postgres_dsn, "--data-dir", str(data_dir(tmp_path))])
        assert in_use.popen.returncode == 6
        assert f"is in use by process {process.pid}; stop that one first" in in_use.output
        process.kill()
        pids = [int(lines(files[name])[0][3]) for name in ("long", "once")]
        until(lambda: not any(map(is_alive, pids)), "the jobs to die with their worker")
    before = [line for file in files.values() for line in lines(file)]

    moved = ended(tmp_path, ["migrate", "--to", postgres_dsn, "--data-dir", str(data_dir(tmp_path))])
    assert moved.popen.returncode == 0, moved.output
    assert "and counted them there" in moved.output
    old = ended(tmp_path, ["up", "--port", str(free_port()), "--data-dir", str(data_dir(tmp_path))])
    assert old.popen.returncode == 6
    assert "moved to postgresql://" in old.output
    assert "Traceback" not in old.output

    with running_server(tmp_path, postgres_dsn) as (_, api), start_worker(tmp_path, api, name="new", slots=16):
        until(lambda: len(lines(files["long"])) == 2, "the interrupted job to run again")
        assert [line[:2] for line in lines(files["long"])] == [[lines(files["long"])[0][0], n] for n in ("1", "2")]
        until(lambda: (run := api.ended_run_of(once)) and run["status"] == "failed", "the other not to be repeated")
        assert len(lines(files["once"])) == 1
        until(lambda: api.ended_run_of(retried), "the retry")
        assert [line[1] for line in lines(files["retry"])] == ["1", "2"]
        assert api.run_of(waiting)["status"] == "blocked", "its turn has not come"
        api.call("POST", f"/v1/runs/{lines(files['long'])[0][0]}/cancel")
        until(lambda: api.ended_run_of(waiting), "its turn")
        api.call("POST", f"/v1/jobs/{ticking}/pause", json={})
        until(lambda: "open" not in api.call("GET", f"/v1/jobs/{ticking}/ledger")["counts"], "all fires to end")

        fires = instants(api, ticking)
        assert fires == [fires[0] + timedelta(seconds=at) for at in range(len(fires))], "each instant is one run"
        ledger = api.call("GET", f"/v1/jobs/{ticking}/ledger")
        assert ledger["due"] == sum(ledger["counts"].values()) == len(fires)
        assert set(ledger["counts"]) <= {"on_time", "late", "caught_up"}

    after = [line for file in files.values() for line in lines(file) if line not in before]
    tokens = [int(line[2]) for line in before + after]
    assert len(set(tokens)) == len(tokens), "no token was used twice"
    assert min(int(line[2]) for line in after) > max(int(line[2]) for line in before)
    attempts = [(run, attempt) for run, attempt, *_ in before + after]
    assert len(set(attempts)) == len(attempts), "no attempt was made twice"
    # What the old worker had, begun or not, may have had an attempt that nobody saw; nothing else was ever interrupted.
    assert {attempt for _, attempt in attempts} == {"1", "2"}
