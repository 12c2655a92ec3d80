"""Measures jobs per second when a worker starts with a backlog of due runs.

The time counts from the first claim until no run is left, which is when the last result is durable.
"""

from __future__ import annotations

import time

from bench import consistency
from bench.batch_load import submit
from bench.deployment import IN_PROCESS, NONE, WORKERS, Deployment, deployed
from bench.measurements import Figure, Findings
from bench.recorder import Recorder, Scale

SLOTS = 2_000


def run(scale: Scale) -> Findings:
    notebook = Recorder("drain", "Drain of a backlog: every run is due before the worker starts")
    repeats, jobs = scale.times(3), scale.pick(100_000, 5_000)
    with notebook.table(
        "Jobs per second", backlog=jobs, slots=SLOTS, repeats=repeats, task="no-op async function, one call per job"
    ) as table:
        for store in scale.stores:
            for worker in WORKERS:
                with deployed(store, NONE, SLOTS) as running:
                    rates = [drain(running, worker, jobs) for _ in notebook.takes(repeats)]
                    consistency.check(notebook, running)
                table.row({"store": store, "worker": worker}, {"jobs/s": Figure(values=rates)})
    return notebook.findings()


def drain(running: Deployment, worker: str, jobs: int) -> float:
    """Build a backlog, start a worker, and stop it when all runs have ended. Return jobs per second."""
    began = time.time_ns() // 1_000
    submit(running, jobs)
    if worker == IN_PROCESS:
        running.stop("server")
        running.start("up")
    else:
        running.start("worker")
    running.await_rest()
    ended = time.time_ns() // 1_000
    first = running.count(f"SELECT min(claimed_at) FROM history WHERE created_at >= {began}")
    if worker == IN_PROCESS:
        running.stop("up")
        running.start("server")
    else:
        running.stop("worker")
    return jobs / (ended - first) * 1e6
