"""A calendar with a closed range, in real processes: no fire inside the range runs, each is in the ledger with its
reason, and `next_open` fires once at the end, also if the server was killed inside the range (I2, I5, I11)."""

import datetime as dt
from collections import Counter
from pathlib import Path

import pytest

from tests.support.processes import Api, free_port, running_up, until

EVERY_SECOND = {"type": "cron", "expression": "* * * * * *"}

pytestmark = pytest.mark.timeout(300)


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


class Freeze:
    """From about now on for some seconds."""

    def __init__(self, api: Api, name: str, seconds: int) -> None:
        self.begin = now() + dt.timedelta(milliseconds=300)
        self.end = (self.begin + dt.timedelta(seconds=seconds)).replace(microsecond=500_000)
        entry = {"from": self.begin.isoformat(), "to": self.end.isoformat(), "reason": "move"}
        api.call("PUT", f"/v1/calendars/{name}", json={"entries": [entry]})
        self.counts = max(self.begin, now())
        """From when on it must be obeyed."""

    def seconds(self, since: dt.datetime) -> int:
        """Instants of a schedule of every second, from some moment on until its end."""
        first = since.replace(microsecond=0)
        return sum(since <= first + dt.timedelta(seconds=count) < self.end for count in range(60))


def job(file: Path, calendar: str, excluded: str) -> dict:
    command = f'echo "$TIMEBALL_FIRE_TIME" >> {file}'
    task = {"kind": "shell", "command": command}
    rules = {"overlap": "allow", "calendars": [calendar], "excluded": excluded}
    return {"task": task, "schedule": EVERY_SECOND, **rules}


def fires(file: Path) -> list[dt.datetime]:
    return [dt.datetime.fromisoformat(line) for line in file.read_text().split()] if file.exists() else []


def check(api: Api, job_id: str, file: Path, freeze: Freeze, excluded: str) -> None:
    api.call("POST", f"/v1/jobs/{job_id}/pause")
    ledger = until(lambda: _settled(api, job_id), "all runs to end")
    seen = fires(file)
    assert max(Counter(seen).values()) == 1
    assert not [at for at in seen if freeze.counts <= at < freeze.end]
    assert (freeze.end in seen) == (excluded == "next_open")
    assert ledger["due"] == sum(ledger["counts"].values())
    skipped = [item for item in ledger["items"] if "excluded by calendar" in item["reason"]]
    assert freeze.seconds(freeze.counts) <= sum(item["count"] for item in skipped) <= freeze.seconds(freeze.begin)
    assert all("move (" in item["reason"] and item["verdict"] == "skipped" for item in skipped)


def _settled(api: Api, job_id: str) -> dict | None:
    ledger: dict = api.call("GET", f"/v1/jobs/{job_id}/ledger")
    return None if ledger["counts"].get("open") else ledger


def empty(api: Api, name: str) -> None:
    api.call("PUT", f"/v1/calendars/{name}", expect=201, json={"entries": []})


def test_no_fire_runs_inside_a_freeze(api: Api, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    name = f"freeze-{tmp_path.name}"
    empty(api, name)
    files = {rule: tmp_path / rule for rule in ("skip", "next_open")}
    jobs = {rule: api.create(job(file, name, rule)) for rule, file in files.items()}
    until(lambda: all(fires(file) for file in files.values()), "both to fire")
    freeze = Freeze(api, name, 3)
    until(lambda: all(max(fires(file)) > freeze.end for file in files.values()), "both to fire again")
    for rule, job_id in jobs.items():
        check(api, job_id, files[rule], freeze, rule)


def test_a_server_that_is_killed_inside_a_freeze_fires_once_when_it_ends(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    file, port = tmp_path / "fires", free_port()
    with running_up(tmp_path, port) as (process, api):
        api.await_workers(1)
        empty(api, "freeze")
        job_id = api.create(job(file, "freeze", "next_open"))
        until(lambda: fires(file), "it to fire")
        freeze = Freeze(api, "freeze", 5)
        until(lambda: api.call("GET", f"/v1/jobs/{job_id}/ledger")["counts"].get("skipped"), "a fire to be excluded")
        process.kill()
    with running_up(tmp_path, port) as (_, api):
        until(lambda: max(fires(file)) > freeze.end, "it to fire again")
        check(api, job_id, file, freeze, "next_open")
