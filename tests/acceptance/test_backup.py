"""I2, I7: a backup is made while jobs are submitted and executed, and restored elsewhere. Every job that was
acknowledged before the backup is there, and the ledger adds up."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.processes import KEY, Api, data_dir, private_folder, running_up, until

pytestmark = pytest.mark.timeout(180)


class Load:
    """Submits jobs until it is stopped. The ids of acknowledged jobs are in `acknowledged`, in their order."""

    def __init__(self, url: str) -> None:
        self.acknowledged: list[str] = []
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._submit)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _submit(self) -> None:
        with Api(self._url) as api:
            while not self._stop.is_set():
                large = {"text": "x" * 70_000} if len(self.acknowledged) % 20 == 0 else {}
                job = {"task": {"kind": "shell", "command": "true"}, "parameters": large}
                self.acknowledged.append(api.create(job))


def timeball(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "timeball", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_nothing_acknowledged_before_a_backup_is_missing_in_it(tmp_path: Path) -> None:
    file, new = private_folder(tmp_path) / "backup.zip", private_folder(tmp_path) / "restored"
    with running_up(tmp_path) as (process, api):
        ticking = api.create(
            {
                "name": "tick",
                "task": {"kind": "shell", "command": "true"},
                "schedule": {"type": "cron", "expression": "* * * * * *"},
            }
        )
        with Load(api.url) as load:
            until(lambda: len(load.acknowledged) >= 60, "some jobs")
            before = list(load.acknowledged)
            done = timeball("backup", file, "--data-dir", data_dir(tmp_path))
            assert done.returncode == 0, done.stderr
            after = len(load.acknowledged)
            until(lambda: len(load.acknowledged) > after, "the load to continue after the backup")
        process.kill()
    assert len(before) >= 60
    killed = timeball("backup", file.with_name("killed.zip"), "--data-dir", data_dir(tmp_path), "-o", "json")
    assert killed.returncode == 0, killed.stderr
    assert json.loads(killed.stdout)["manifest"]["rows"]["jobs"] == len(load.acknowledged) + 1, "with all of the log"

    done = timeball("restore", file, "--data-dir", new)
    assert done.returncode == 0, done.stderr
    with running_up(tmp_path, None, "--data-dir", str(new)) as (_, api):
        found = {job["jobId"] for job in _jobs(api)}
        assert set(before) - found == set()
        for job_id in before:
            until(lambda job_id=job_id: api.ended_run_of(job_id), "its run to end")
            assert api.ended_run_of(job_id)["status"] == "succeeded"
        assert len(api.call("GET", f"/v1/jobs/{before[0]}")["parameters"]["text"]) == 70_000
        audit = timeball("audit", ticking, "--url", api.url, "--token", KEY, "--from", "1h")
        assert audit.returncode == 0, audit.stdout + audit.stderr
        ledger = api.call("GET", f"/v1/jobs/{ticking}/ledger")
        assert ledger["due"] == sum(ledger["counts"].values())


def _jobs(api: Api) -> list[dict[str, object]]:
    jobs: list[dict[str, object]] = []
    cursor = ""
    while True:
        page = api.call("GET", "/v1/jobs", params={"limit": 500, **({"cursor": cursor} if cursor else {})})
        jobs += page["items"]
        if not (cursor := page.get("nextCursor") or ""):
            return jobs
