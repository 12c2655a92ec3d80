"""I11: an update, pause or delete that was acknowledged is never followed by a fire of the old version."""

import datetime as dt
import random
import time
from pathlib import Path

from tests.support.processes import Api, until

COMMAND = 'echo "$TIMEBALL_JOB_ID {version} $TIMEBALL_FIRE_TIME" >> {file}'


def fires(file: Path, job_id: str) -> list[tuple[str, dt.datetime]]:
    rows = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return [(version, dt.datetime.fromisoformat(at)) for job, version, at in rows if job == job_id]


def test_no_fire_of_an_old_version_follows_an_acknowledged_edit(api: Api, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    file, rng = tmp_path / "fires", random.Random(11)

    def task(version: int) -> dict:
        return {"kind": "shell", "command": COMMAND.format(version=version, file=file)}

    jobs = [
        api.create(
            {"task": task(0), "schedule": {"type": "cron", "expression": "* * * * * *"}, "overlap": "allow"}
        )
        for _ in range(6)
    ]  # fmt: skip
    acknowledged: dict[str, list[tuple[int, dt.datetime]]] = {job: [] for job in jobs}
    until(lambda: all(fires(file, job) for job in jobs), "every job to fire")
    for version in range(1, 5):
        for job in jobs:
            time.sleep(rng.random() / 6)
            api.call("PATCH", f"/v1/jobs/{job}", json={"task": task(version)})
            acknowledged[job].append((version, dt.datetime.now(dt.UTC)))
    paused, deleted = jobs[:3], jobs[3:]
    ended: dict[str, dt.datetime] = {}
    for job in paused:
        time.sleep(rng.random())
        api.call("POST", f"/v1/jobs/{job}/pause", json={"reason": "test"})
        ended[job] = dt.datetime.now(dt.UTC)
    for job in deleted:
        time.sleep(rng.random())
        api.call("DELETE", f"/v1/jobs/{job}")
        ended[job] = dt.datetime.now(dt.UTC)
    time.sleep(3)

    for job in jobs:
        seen = fires(file, job)
        assert len(seen) >= 3
        for version, at in seen:
            allowed = max((v for v, when in acknowledged[job] if when < at), default=0)
            assert int(version) >= allowed, f"version {version} fired for {at}, after {allowed} was acknowledged"
            assert at <= ended[job], f"fired for {at}, after the end at {ended[job]}"
        ledger = api.call("GET", f"/v1/jobs/{job}/ledger")
        assert ledger["due"] == sum(ledger["counts"].values())
