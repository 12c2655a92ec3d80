"""Measures how late the jobs of one tenant start while another one floods the workers.

Both tenants have the same weight, and the workers serve both. In each turn, the calm tenant fires its jobs alone, and
then while the other one submits a flood of jobs that are all due at once. The flood begins when the jobs of the calm
tenant are accepted; the turn ends when it is executed.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench import consistency
from bench.batch_load import Feeder
from bench.deployment import USUAL_WORKER, Deployment, deployed
from bench.fire_lateness import Mark, fire
from bench.measurements import Figure, Findings, median, percentile
from bench.recorder import Recorder, Scale

SLOTS = 200
RATE = 40
"""Jobs per second of the calm tenant."""
FACTOR = 2.0
MORE_MS = 50.0
"""The p99 may grow by this factor, or by this number of milliseconds."""


@dataclass(frozen=True)
class Sizes:
    flood: int
    seconds: float

    @property
    def offsets(self) -> list[float]:
        return [index / RATE for index in range(int(self.seconds * RATE))]


USUAL = Sizes(flood=100_000, seconds=8.0)
QUICK = Sizes(flood=5_000, seconds=1.0)


def run(scale: Scale) -> Findings:
    notebook = Recorder("tenants", "Start lateness beside a flood of another tenant")
    sizes, turns = scale.pick(USUAL, QUICK), scale.times(5)
    with notebook.table("Start lateness in ms", slots=SLOTS, repeats=turns, flood=f"{sizes.flood:,} jobs") as table:
        for store in scale.stores:
            with deployed(store, USUAL_WORKER[store], SLOTS, serves=("*",)) as running:
                flooding, calm = (_key(running, tenant) for tenant in ("flooding", "calm"))
                alone, beside = [], []
                for _ in notebook.takes(turns):
                    alone.append(_late(notebook, running, fire(running, sizes.offsets, key=calm)))
                    at_once = running.submitted + 10 * sizes.flood
                    flood = Feeder(running, in_flight=at_once, most=sizes.flood, key=flooding)
                    beside.append(
                        _late(notebook, running, fire(running, sizes.offsets, key=calm, once_accepted=flood.start))
                    )
                    flood.join()
                    running.await_rest()
                most = allowed(median(percentile(late, 0.99) for late in alone))
                for jobs, found, limit in (("alone", alone, None), ("beside the flood", beside, most)):
                    table.row(
                        {"store": store, "worker": running.worker, "jobs of the calm tenant": jobs},
                        {
                            "p50": Figure(values=[percentile(late, 0.5) for late in found], digits=1),
                            "p99": Figure(values=[percentile(late, 0.99) for late in found], most=limit, digits=1),
                            "max": Figure(values=[max(late) for late in found], digits=1),
                        },
                    )
                consistency.check(notebook, running)
    return notebook.findings()


def allowed(alone: float) -> float:
    """Return the p99 that is allowed beside the flood, given the one without it."""
    return max(FACTOR * alone, alone + MORE_MS)


def _key(running: Deployment, tenant: str) -> str:
    """Create a tenant. Return a key that defines jobs for it."""
    with running.client() as client:
        client.post("/v1/tenants", json={"tenantId": tenant}).raise_for_status()
        made = client.post(f"/v1/tenants/{tenant}/api-keys", json={"role": "editor", "name": "bench"})
        return str(made.raise_for_status().json()["key"])


def _late(notebook: Recorder, running: Deployment, marks: list[Mark]) -> list[float]:
    early = sum(mark.late < 0 for mark in marks)
    notebook.check(early == 0, f"{running.store}: {early} of {len(marks)} jobs started early")
    return [mark.late for mark in marks]
