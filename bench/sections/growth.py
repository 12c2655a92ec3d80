"""Measures speed and size with a large database: millions of jobs that are not due, and of finished runs."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
import time
from typing import Any

from bench import consistency, prefill
from bench.batch_load import BATCH, CONNECTIONS, IN_FLIGHT, NOOP, Connection
from bench.deployment import IN_PROCESS, NONE, USUAL_WORKER, Deployment, deployed
from bench.measurements import Figure, Findings
from bench.recorder import Recorder, Scale, TableInProgress, say
from bench.sections.lifecycle import SLOTS, steady

YEAR = 365 * 86_400.0
KEPT_SPEED = 80.0
IDLE_CPU = 5.0
IDLE_MIB = 1_024.0
LIST_MS = 100.0
SCHEDULED_JOBS = 1_000
"""Number of jobs with runs in the history. One of a hundred fails in every run."""
EVERY = 500.0
"""Seconds between two runs of such a job, so that 5,000 runs are within the thirty days for which runs are kept."""

_ID = re.compile(r"(?:\d+:)?[jr]_[0-9a-f]{28}|\d{4}-\d\d-\d\dT[\d:]+Z")


def run(scale: Scale) -> Findings:
    notebook = Recorder("growth", "Growth: the same with millions of jobs and runs")
    sizes = [1_000, 10_000] if scale.quick else [10_000, 1_000_000, *([5_000_000] if scale.full else [])]
    _throughput(notebook, scale, sizes)
    _idle(notebook, scale, scale.pick(1_000_000, 10_000))
    _lists(notebook, scale, sizes[-1])
    return notebook.findings()


# --- throughput ---------------------------------------------------------------------------------------------------


def _throughput(notebook: Recorder, scale: Scale, sizes: list[int]) -> None:
    """Measure the sizes in turns, up and down, and compare each with the smallest of its turn, because the speed of the
    machine changes from minute to minute.
    """
    repeats, warm, window = scale.times(5), scale.pick(3.0, 1.0), scale.pick(8.0, 2.0)
    with notebook.table(
        "Life cycle in steady state, while the store also holds jobs for the coming year; CPU in µs per job",
        window=f"{window:g} s after a warm-up of {warm:g} s",
        batches=BATCH,
        connections=CONNECTIONS,
        in_flight=IN_FLIGHT,
        slots=SLOTS,
        repeats=f"{repeats}, each with all sizes",
    ) as table:
        for store in scale.stores:
            with contextlib.ExitStack() as stack:
                houses = {size: stack.enter_context(deployed(store, NONE, SLOTS)) for size in sizes}
                for size, running in houses.items():
                    _fill_jobs(running, size, {"type": "date", "expression": _later(YEAR).isoformat()}, over=YEAR)
                turns = [
                    {size: steady(houses[size], warm, window) for size in (sizes if number % 2 else reversed(sizes))}
                    for number in notebook.takes(repeats)
                ]
                for size, running in houses.items():
                    consistency.check(notebook, running, filled=size)
            for size in sizes:
                kept = [turn[size].rate / turn[sizes[0]].rate * 100 for turn in turns]
                figures = {
                    "jobs/s": Figure(values=[turn[size].rate for turn in turns]),
                    "%": Figure(values=kept, least=KEPT_SPEED),
                    "µs/job": Figure(values=[sum(turn[size].cpu.values()) for turn in turns], digits=1),
                }
                table.row({"store": store, "worker": USUAL_WORKER[store], "scheduled": f"{size:,}"}, figures)


def _fill_jobs(running: Deployment, size: int, schedule: dict[str, Any], *, over: float = 0.0) -> None:
    """Create this number of jobs, then start a worker."""
    connection = Connection(running)
    connection.post("/v1/jobs", json.dumps(NOOP | {"name": "filler", "schedule": schedule}).encode())
    connection.close()
    running.stop("server")
    began = time.monotonic()
    prefill.copy_jobs(running, size - 1, over=over)
    say(f"{running.store}: {size:,} jobs in {time.monotonic() - began:.0f} s")
    _open(running)


def _open(running: Deployment) -> None:
    running.worker = USUAL_WORKER[running.store]
    if running.worker == IN_PROCESS:
        running.start("up")
    else:
        running.start("server")
        running.start("worker")


# --- idle ---------------------------------------------------------------------------------------------------------


def _idle(notebook: Recorder, scale: Scale, size: int) -> None:
    """Measure the costs while nothing fires: the hour at which all jobs fire is half a day away."""
    repeats, seconds = scale.times(3), scale.pick(10.0, 3.0)
    with notebook.table(
        "Doing nothing, with daily schedules: CPU in % of a core, and resident memory in MiB",
        schedules=size,
        seconds=f"{seconds:g}",
        repeats=repeats,
    ) as table:
        for store in scale.stores:
            with deployed(store, NONE, SLOTS) as running:
                _fill_jobs(running, size, {"type": "cron", "expression": f"0 {_later(43_200).hour} * * *"})
                time.sleep(scale.pick(5.0, 1.0))
                shares = [_cpu_shares(running, seconds) for _ in notebook.takes(repeats)]
                total = Figure(values=[sum(share.values()) for share in shares], most=IDLE_CPU, digits=1)
                parts = {f"{name} %": Figure(values=[share[name] for share in shares], digits=1) for name in shares[0]}
                alive = running.count("SELECT count(*) FROM runs")
                notebook.check(alive == 0, f"{store}: {alive} runs were made while nothing should fire")
                memory = Figure(values=[running.resident_mib()], most=IDLE_MIB)
                table.row({"store": store, "worker": running.worker}, {"CPU %": total, **parts, "MiB": memory})


def _cpu_shares(running: Deployment, seconds: float) -> dict[str, float]:
    before = running.cpu_seconds()
    time.sleep(seconds)
    after = running.cpu_seconds()
    return {name: (after[name] - before[name]) / seconds * 100 for name in before if name != "load"}


# --- lists --------------------------------------------------------------------------------------------------------


def _lists(notebook: Recorder, scale: Scale, size: int) -> None:
    calls = scale.pick(20, 5)
    with notebook.table(
        "Lists of the API, ms per call",
        runs_in_history=size,
        jobs=SCHEDULED_JOBS,
        page="100 items",
        calls=f"{calls}, the first included",
    ) as table:
        for store in scale.stores:
            with deployed(store, NONE, SLOTS) as running:
                job = _fill_history(running, size)
                filled = running.count("SELECT count(*) FROM history")
                notebook.check(filled == size, f"{store}: the history has {filled:,} runs, not {size:,}")
                for path in _paths(running, job, middle=size / SCHEDULED_JOBS * EVERY / 2):
                    _call(notebook, table, running, path, calls)


def _fill_history(running: Deployment, size: int) -> str:
    """Create jobs that have run once, and add earlier runs of them to the history. Return the id of one of them."""
    running.start("worker")
    connection = Connection(running)
    jobs = [_scheduled_job(number) for number in range(SCHEDULED_JOBS)]
    connection.post("/v1/jobs:batch", json.dumps(jobs).encode())
    connection.close()
    running.submitted += SCHEDULED_JOBS
    running.await_rest()
    running.stop("worker")
    running.stop("server")
    began = time.monotonic()
    prefill.copy_history(running, size // SCHEDULED_JOBS - 1, every=EVERY)
    say(f"{running.store}: {size:,} runs in {time.monotonic() - began:.0f} s")
    _open(running)
    with running.database() as database:
        ((job_id,),) = database.rows("SELECT id FROM jobs WHERE name = 'job-1'")
    return str(job_id)


def _scheduled_job(number: int) -> dict[str, Any]:
    rare = number % 100 == 0
    return {
        "name": f"job-{number}",
        "task": {"kind": "python", "function": "bench.fail" if rare else "bench.noop"},
        "retry": {"maxRetries": 0},
        "tags": ["rare" if rare else "common"],
    }


def _paths(running: Deployment, job: str, *, middle: float) -> list[str]:
    """Return the paths of all lists with typical filters. `middle` is how many seconds ago the middle of the history
    was.
    """
    with running.client() as client:
        cursor = client.get("/v1/runs").json()["nextCursor"]
    since, until = (_later(-seconds).strftime("%Y-%m-%dT%H:%M:%SZ") for seconds in (middle + 3_600, middle))
    return [
        "/v1/runs",
        f"/v1/runs?cursor={cursor}",
        "/v1/runs?status=succeeded",
        "/v1/runs?status=dead",
        "/v1/runs?status=running",
        f"/v1/runs?jobId={job}",
        f"/v1/runs?startTime={since}&endTime={until}",
        "/v1/runs?tag=rare",
        "/v1/runs?tag=common",
        "/v1/jobs",
        "/v1/jobs?status=completed",
        "/v1/jobs?name=job-500",
        f"/v1/jobs/{job}/ledger",
        "/v1/dead-letters",
        "/v1/dead-letters/groups",
    ]


def _call(notebook: Recorder, table: TableInProgress, running: Deployment, path: str, calls: int) -> None:
    times, answer = [], None
    with running.client() as client:
        client.get("/livez")
        for _ in notebook.takes(calls):
            began = time.perf_counter()
            answer = client.get(path)
            times.append((time.perf_counter() - began) * 1_000)
    assert answer is not None
    notebook.check(answer.status_code == 200, f"{running.store}: {path} answered {answer.status_code}: {answer.text}")
    figures = {
        "median": Figure(values=times, digits=1),
        "max": Figure(values=[max(times)], most=LIST_MS, digits=1),
    }
    table.row({"store": running.store, "list": _ID.sub("…", path)}, figures)


def _later(seconds: float) -> dt.datetime:
    return dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
