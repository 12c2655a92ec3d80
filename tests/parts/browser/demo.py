"""The jobs of a small online shop, with a day of history, for screenshots and for tests of whole pages.

Jobs, workflows, calendars and the newest runs are real: a server executes them. The history of the day before is
written into the database while no server runs, always the same for the same seed.
"""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tests.support.processes import Api, data_dir, running_up, until
from timeball.domain.overview.tally import bucket_of
from timeball.domain.run.error_fingerprint import fingerprint
from timeball.domain.run.lifecycle import Failure

SEED = 1300
DAY_SECONDS = 86_400
SECOND = 1_000_000


@dataclass(frozen=True, kw_only=True)
class DemoJob:
    name: str
    cron: str
    period: int
    """Seconds between two fires in the history."""
    seconds: float
    """How long a run takes, typically."""
    tags: tuple[str, ...]
    lines: tuple[str, ...]
    fails: float = 0.0
    """The share of runs that fail."""
    error: str = ""

    def body(self) -> dict[str, Any]:
        script = [f"echo '{line}'; sleep {self.seconds / len(self.lines):.1f}" for line in self.lines]
        if self.fails:
            script.append(f"echo '{self.error}' >&2; exit 3")
        return {
            "name": self.name,
            "task": {"kind": "shell", "command": "\n".join(script)},
            "schedule": {"type": "cron", "expression": self.cron, "timezone": "UTC"},
            "retry": {"maxRetries": 0 if self.fails else 3},
            "tags": list(self.tags),
            "userId": "shop",
        }


JOBS = (
    DemoJob(
        name="sync-orders",
        cron="* * * * *",
        period=60,
        seconds=4,
        tags=("orders",),
        lines=("reading orders since the last run", "42 new orders", "done, the next run begins at order 40,127"),
    ),
    DemoJob(
        name="charge-cards",
        cron="*/5 * * * *",
        period=300,
        seconds=12,
        tags=("billing",),
        lines=("17 payments are due", "charged 16", "1 card was declined"),
    ),
    DemoJob(
        name="export-invoices",
        cron="*/10 * * * *",
        period=600,
        seconds=8,
        tags=("billing", "nightly"),
        lines=("rendering 120 invoices", "uploading"),
        fails=0.3,
        error="upload refused: 503 from storage.example.com",
    ),
    DemoJob(
        name="rebuild-search-index",
        cron="*/15 * * * *",
        period=900,
        seconds=150,
        tags=("search",),
        lines=(
            "reading 18,204 products",
            "building the index",
            "warning: 3 products have no price",
            "ok",
        ),
    ),
    DemoJob(
        name="send-newsletter",
        cron="20 * * * *",
        period=3600,
        seconds=240,
        tags=("mail",),
        lines=("8,120 recipients", "batch 1 of 4", "batch 2 of 4", "batch 3 of 4", "batch 4 of 4"),
    ),
    DemoJob(
        name="clean-carts",
        cron="*/3 * * * *",
        period=180,
        seconds=2,
        tags=("orders",),
        lines=("removed 31 carts",),
    ),
    DemoJob(
        name="refresh-exchange-rates",
        cron="*/2 * * * *",
        period=120,
        seconds=1,
        tags=("billing",),
        lines=("EUR 1.00 = USD 1.09",),
    ),
    DemoJob(
        name="stock-report",
        cron="5 * * * *",
        period=3600,
        seconds=30,
        tags=("reports",),
        lines=("reading the warehouse", "wrote stock.csv"),
        fails=0.15,
        error="psycopg.OperationalError: connection to warehouse-db timed out",
    ),
    DemoJob(
        name="thumbnails",
        cron="*/4 * * * *",
        period=240,
        seconds=20,
        tags=("media",),
        lines=("12 new pictures", "resized 12"),
    ),
    DemoJob(
        name="nightly-backup",
        cron="0 2 * * *",
        period=DAY_SECONDS,
        seconds=900,
        tags=("nightly", "database"),
        lines=("pg_dump shop", "14.2 GB written"),
    ),
)
WORKFLOW = {
    "name": "nightly-warehouse",
    "schedule": {"type": "cron", "expression": "0 3 * * *", "timezone": "Europe/Berlin"},
    "tags": ["nightly"],
    "tasks": [
        {"name": "extract-orders", "task": {"kind": "shell", "command": "sleep 1; echo 4,210 orders"}},
        {"name": "extract-stock", "task": {"kind": "shell", "command": "sleep 2; echo 18,204 products"}},
        {
            "name": "transform",
            "needs": ["extract-orders", "extract-stock"],
            "task": {"kind": "shell", "command": "sleep 1; echo 22,414 rows"},
        },
        {
            "name": "load",
            "needs": ["transform"],
            "task": {"kind": "shell", "command": "sleep 1; echo schema has changed >&2; exit 4"},
            "retry": {"maxRetries": 0},
        },
        {"name": "report", "needs": ["load"], "task": {"kind": "shell", "command": "echo report"}},
        {"name": "alarm", "needs": ["load"], "runIf": "any_failed", "task": {"kind": "shell", "command": "echo alarm"}},
    ],
}
USERS = (
    {"userId": "grace", "name": "Grace", "email": "grace@example.com", "role": "admin"},
    {"userId": "linus", "name": "Linus", "email": "linus@example.com", "role": "operator"},
    {"userId": "audit", "name": "Auditor", "email": "audit@example.com", "role": "viewer"},
)
TENANT = {"tenantId": "staging", "name": "Staging", "description": "the shop before a release"}
FREEZE, RESIZE = "freeze", "resize-picture"
CALENDAR = {
    "timezone": "Europe/Berlin",
    "entries": [
        {"from": "2026-12-20T00:00", "to": "2027-01-03T00:00", "reason": "year-end freeze"},
        {"dates": ["2026-12-25", "2026-12-26"], "reason": "public holiday"},
        {"cron": "0 22 * * FRI", "for": "58h", "reason": "weekend"},
    ],
}


@dataclass(frozen=True, kw_only=True)
class Demo:
    """A running server with the data of the shop."""

    api: Api
    job_id: str
    run_id: str
    dead_run_id: str
    workflow_id: str
    workflow_run_id: str
    calendar: str
    task: str


@contextlib.contextmanager
def running_demo(folder: Path, hours: int = 24) -> Iterator[Demo]:
    with running_up(folder) as (process, api):
        ids = {job.name: api.create(job.body()) for job in JOBS}
        process.stop()
    write_history(data_dir(folder) / "timeball.db", ids, hours)
    with running_up(folder) as (_, api):
        yield _filled(api, ids)


def _filled(api: Api, ids: dict[str, str]) -> Demo:
    """Create everything beside the jobs, and wait until it has run."""
    api.call("PUT", f"/v1/calendars/{FREEZE}", expect=201, json=CALENDAR)
    api.call("PUT", f"/v1/tasks/{RESIZE}", expect=201, json={"kind": "shell", "command": "resize --width 800"})
    api.call("POST", "/v1/api-keys", expect=201, json={"role": "worker", "name": "warehouse-worker"})
    for user in USERS:
        api.call("POST", "/v1/users", expect=201, json=user)
    api.call("POST", "/v1/tenants", expect=201, json=TENANT)
    month_end = {"type": "cron", "expression": "0 6 28 * *", "timezone": "Europe/Berlin"}
    shell = {"kind": "shell", "command": "echo closing the month"}
    api.create({"name": "close-the-month", "task": shell, "schedule": month_end, "calendars": [FREEZE]})
    paused = api.create({"name": "partner-feed", "task": shell, "schedule": {"type": "interval", "expression": "10m"}})
    api.call("POST", f"/v1/jobs/{paused}/pause", json={"reason": "the partner moves to a new address until Monday"})
    workflow = api.call("POST", "/v1/workflows", expect=201, json=WORKFLOW)["workflowId"]
    workflow_run = api.call("POST", f"/v1/workflows/{workflow}/run", expect=(200, 201, 202))
    for name in ("sync-orders", "export-invoices", "rebuild-search-index"):
        api.call("POST", f"/v1/jobs/{ids[name]}/run", expect=(200, 201, 202))
    now = time.time()
    since = time.strftime("%Y-%m-%dT%H:%M:00Z", time.gmtime(now - 40 * 60))
    api.call("POST", f"/v1/jobs/{ids['clean-carts']}/backfill", expect=201, json={"from": since, "parallelism": 4})
    done = until(lambda: _newest(api, ids["sync-orders"], "succeeded"), "a run that succeeded")
    dead = until(lambda: _newest(api, ids["export-invoices"], "dead"), "a run that is dead")
    return Demo(
        api=api,
        job_id=ids["sync-orders"],
        run_id=done["runId"],
        dead_run_id=dead["runId"],
        workflow_id=workflow,
        workflow_run_id=workflow_run["runId"],
        calendar=FREEZE,
        task=RESIZE,
    )


def _newest(api: Api, job_id: str, status: str) -> dict[str, Any] | None:
    """The newest run with its output, which runs of the history do not have."""
    runs = api.call("GET", f"/v1/jobs/{job_id}/runs", params={"status": status, "limit": 5})["items"]
    return next((run for run in runs if run["origin"] == "manual"), None)


# --- the history ----------------------------------------------------------------------------------------------------


def write_history(database: Path, ids: dict[str, str], hours: int) -> None:
    """Write the runs of the last hours, and the statistics that a server would have kept of them."""
    chance = random.Random(SEED)
    now = int(time.time())
    rows = [
        _past_run(chance, job, ids[job.name], fire)
        for job in JOBS
        for fire in range(now - now % job.period - job.period, now - hours * 3600, -job.period)
    ]
    with contextlib.closing(sqlite3.connect(database)) as opened, opened:
        insert_runs(opened, rows)
        _insert_statistics(opened, rows)
        _age_jobs(opened, (now - hours * 3600 - 3600) * SECOND)


def insert_runs(database: sqlite3.Connection, rows: list[dict[str, Any]]) -> None:
    names = list(rows[0])
    values = ", ".join(f":{name}" for name in names)
    database.executemany(f"INSERT INTO history ({', '.join(names)}) VALUES ({values})", rows)


def _past_run(chance: random.Random, job: DemoJob, job_id: str, fire: int) -> dict[str, Any]:
    failed = chance.random() < job.fails
    late = int(chance.lognormvariate(8.5, 0.8))
    took = job.seconds * chance.uniform(0.6, 1.5) * (0.4 if failed else 1.0)
    return past_run(job_id, fire * SECOND, late=late, took=int(took * SECOND), error=job.error if failed else "")


def past_run(job_id: str, due: int, *, late: int = 5_000, took: int = SECOND, error: str = "") -> dict[str, Any]:
    """A row of the history. Its id has the time of the run, as every id."""
    started = due + late
    unique = random.Random(f"{job_id} {due}").getrandbits(64)
    failure = Failure(kind="exit", message=f"exit code 3: {error}", exit_code=3)
    return {
        "id": f"r_{due // 1000:012x}{unique:016x}",
        "job_id": job_id,
        "tenant": "default",
        "version": 1,
        "fire_time": due,
        "fire_until": due,
        "fires": 1,
        "origin": "schedule",
        "status": "dead" if error else "succeeded",
        "verdict": "on_time",
        "reason": "",
        "attempt": 1,
        "token": 1,
        "worker": "worker-1",
        "eligible_at": due,
        "created_at": due - 2 * SECOND,
        "claimed_at": started,
        "started_at": started,
        "attempt_started_at": started,
        "finished_at": started + took,
        "progress_note": "",
        "failure": msgspec.json.encode(failure).decode() if error else None,
        "fingerprint": fingerprint(failure) if error else None,
    }


def _insert_statistics(database: sqlite3.Connection, rows: list[dict[str, Any]]) -> None:
    for width in (10 * SECOND, 60 * SECOND):
        ends: dict[int, Counter[str]] = {}
        late: dict[int, Counter[int]] = {}
        for row in rows:
            at = row["finished_at"] - row["finished_at"] % width
            ends.setdefault(at, Counter())[row["status"]] += 1
            late.setdefault(at, Counter())[bucket_of(row["started_at"] - row["fire_time"])] += 1
        tallies = [(width, at, json.dumps({"ends": ends[at], "late": late[at]})) for at in ends]
        database.executemany(
            "INSERT OR IGNORE INTO run_stats (tenant, width, at, tally) VALUES ('default', ?, ?, ?)", tallies
        )


def _age_jobs(database: sqlite3.Connection, created_at: int) -> None:
    """Jobs are older than their runs. The time in their ids stays what it is: nothing reads it."""
    database.execute("UPDATE jobs SET created_at = ?, anchor = ?", (created_at, created_at))
