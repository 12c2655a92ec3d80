"""Measures jobs per second in steady state for the whole life cycle: submitted in batches → durable → executed → result
durable.

The number of jobs in flight is bounded, and only a window in the middle counts: neither the start, when no results
arrive yet, nor the end, when no jobs are accepted any more.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from bench import consistency
from bench.batch_load import BATCH, CONNECTIONS, IN_FLIGHT, feeding
from bench.deployment import IN_PROCESS, SEPARATE, WORKERS, Deployment, Trouble, deployed
from bench.measurements import Figure, Findings, median
from bench.recorder import Recorder, Scale

SLOTS = 2_000
"""Number of slots of a worker for short functions: as many as two batches have jobs."""
PROMISED = {("sqlite", IN_PROCESS): 25_000, ("sqlite", SEPARATE): 15_000, ("postgresql", SEPARATE): 15_000}


@dataclass(frozen=True)
class Steady:
    """The results of a window in steady state."""

    rate: float
    """Jobs per second."""
    cpu: dict[str, float]
    """Microseconds of CPU per job, by process."""
    memory: dict[str, float]
    """MiB at the end of the window, by process."""


def run(scale: Scale) -> Findings:
    notebook = Recorder("lifecycle", "Life cycle in steady state: submitted, durable, executed, result durable")
    repeats, warm, window = scale.times(3), scale.pick(3.0, 1.0), scale.pick(10.0, 3.0)
    configuration = {
        "window": f"{window:g} s after a warm-up of {warm:g} s",
        "batches": BATCH,
        "connections": CONNECTIONS,
        "in flight": IN_FLIGHT,
        "slots": SLOTS,
        "repeats": repeats,
        "task": "no-op async function",
    }
    price = notebook.table("What a job costs: CPU in µs per job, and memory in MiB, by process", **configuration)
    with price as prices, notebook.table("Jobs per second", **configuration) as rates:
        for store in scale.stores:
            for worker in WORKERS:
                with deployed(store, worker, SLOTS) as running:
                    found = [steady(running, warm, window) for _ in notebook.takes(repeats)]
                    consistency.check(notebook, running)
                promised = PROMISED.get((store, worker))
                labels = {"store": store, "worker": worker}
                rates.row(labels, {"jobs/s": Figure(values=[each.rate for each in found], least=promised)})
                prices.row(labels, costs(found))
    return notebook.findings()


def steady(running: Deployment, warm: float, window: float) -> Steady:
    """Submit jobs for a while, measure a window in the middle, and wait until all runs have ended."""
    with feeding(running):
        time.sleep(warm)
        began, spent_before = _now(), running.cpu_seconds()
        time.sleep(window)
        ended, spent_after = _now(), running.cpu_seconds()
        memory = running.memory_mib()
        alive = running.count("SELECT count(*) FROM runs")
    if alive > 2 * IN_FLIGHT:
        raise Trouble(f"{alive:,} runs were alive: results become durable more slowly than jobs are executed")
    running.await_rest()
    done = running.count(f"SELECT count(*) FROM history WHERE finished_at >= {began} AND finished_at < {ended}")
    cpu = {name: (spent_after[name] - spent_before[name]) / max(done, 1) * 1e6 for name in spent_after}
    return Steady(done / (ended - began) * 1e6, cpu, memory)


def costs(found: list[Steady]) -> dict[str, Figure]:
    """Return columns for CPU and memory. The median is over repeats; the sum is over processes."""
    columns = {"µs/job": Figure(values=[sum(each.cpu.values()) for each in found], digits=1)}
    for name in found[0].cpu:
        columns[f"{name} µs"] = Figure(values=[each.cpu[name] for each in found], digits=1)
    for name in found[0].memory:
        columns[f"{name} MiB"] = Figure(values=[median([each.memory[name] for each in found])])
    return columns


def _now() -> int:
    return time.time_ns() // 1_000
