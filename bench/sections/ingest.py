"""Measures how many jobs a server accepts per second, each durable before it is answered: one per request, and in
batches.

There is no worker during the measurement. Afterwards one is started and runs everything, so that it can be counted.
"""

from __future__ import annotations

import json
import time

from bench import consistency
from bench.batch_load import BATCH, CONNECTIONS, HEADERS, NOOP, submit
from bench.deployment import NONE, Deployment, deployed
from bench.measurements import Figure, Findings
from bench.recorder import Recorder, Scale
from bench.single_posts import Posts, generator, post

SINGLE_CONNECTIONS = 64
SLOTS = 500
PROMISED = 8_000


def run(scale: Scale) -> Findings:
    notebook = Recorder("ingest", "Ingest: jobs accepted over HTTP, each answered after its commit")
    repeats, seconds, jobs = scale.times(3), scale.pick(5.0, 2.0), scale.pick(50_000, 5_000)
    task = "no-op, due at once, no worker"
    single = notebook.table(
        "One job per request: jobs/s, ms until the answer, and the server's CPU per job in µs",
        connections=SINGLE_CONNECTIONS,
        load=generator(),
        seconds=f"{seconds:g}",
        repeats=repeats,
        task=task,
    )
    many = notebook.table(
        "In batches: jobs/s", batches=BATCH, connections=CONNECTIONS, jobs=jobs, repeats=repeats, task=task
    )
    with many as batches, single as posts:
        for store in scale.stores:
            with deployed(store, NONE, SLOTS) as running:
                found, cpu = zip(*(_post(notebook, running, seconds) for _ in notebook.takes(repeats)), strict=True)
                posts.row(
                    {"store": store},
                    {
                        "jobs/s": Figure(values=[each.rate for each in found], least=PROMISED),
                        "p50": Figure(values=[each.p50 for each in found], digits=1),
                        "p99": Figure(values=[each.p99 for each in found], digits=1),
                        "max": Figure(values=[each.most for each in found], digits=1),
                        "server µs": Figure(values=list(cpu), digits=1),
                    },
                )
                rates = [_submit(running, jobs) for _ in notebook.takes(repeats)]
                batches.row({"store": store}, {"jobs/s": Figure(values=rates)})
                running.start("worker")
                running.await_rest()
                consistency.check(notebook, running)
    return notebook.findings()


def _post(notebook: Recorder, running: Deployment, seconds: float) -> tuple[Posts, float]:
    """Send requests. Return the result, and the CPU time of the server per job in µs."""
    body = json.dumps(NOOP).encode()
    before = running.cpu_seconds()["server"]
    found = post(f"{running.url}/v1/jobs", body, HEADERS, connections=SINGLE_CONNECTIONS, seconds=seconds)
    notebook.check(found.failed == 0, f"{running.store}: {found.failed} of {found.answers} requests failed")
    # The last request of each connection may have been accepted although the generator did not wait for its answer.
    time.sleep(0.5)
    accepted = running.count("SELECT count(*) FROM jobs") - running.submitted
    text = f"{accepted} jobs were accepted, and {found.answers} requests were answered"
    notebook.check(found.answers <= accepted <= found.answers + SINGLE_CONNECTIONS, f"{running.store}: {text}")
    running.submitted += accepted
    return found, (running.cpu_seconds()["server"] - before) / accepted * 1e6


def _submit(running: Deployment, jobs: int) -> float:
    began = time.monotonic()
    submit(running, jobs)
    return jobs / (time.monotonic() - began)
