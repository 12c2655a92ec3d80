"""What listeners of the event stream cost: CPU per job beside none, CPU while nothing happens, and the memory of those
that never read.

Turns with and without listeners alternate on one server. After the last listener has left, the server collects changes
for `RESUME_SECONDS` more: a turn without listeners begins after that.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from bench import consistency
from bench.batch_load import BATCH, CONNECTIONS, Feeder
from bench.deployment import USUAL_WORKER, Deployment, deployed
from bench.listeners import listening
from bench.measurements import Figure, Findings
from bench.recorder import Recorder, Scale
from bench.sections.lifecycle import SLOTS

LISTENERS = 100
RATE = 3_000
TABS = 20
DEAF = 50
RESUME_SECONDS = 17.0
MAX_CPU_FACTOR = 1.05
MAX_QUIET_PERCENT = 3.0
MAX_DEAF_MIB = 0.5
"""MiB of one listener that never reads: what waits for it is at most 256 KiB, and much of it is shared."""
SMALL_BATCH = 100


def run(scale: Scale) -> Findings:
    notebook = Recorder("events", "Event streams: what listeners cost")
    turns, length, warm = scale.times(5), scale.pick(10.0, 2.0), scale.pick(2.0, 0.5)
    configuration = {
        "jobs/s": RATE,
        "turn": f"{length:g} s",
        "turns": turns,
        "batches": SMALL_BATCH,
        "connections": CONNECTIONS,
        "slots": SLOTS,
    }
    cost = notebook.table("CPU of all Timeball and database processes, in µs per job", **configuration)
    quiet = notebook.table("CPU of the server while nothing happens, in % of a core", listeners=TABS)
    deaf = notebook.table("Memory of the server for each listener that never reads, in MiB", listeners=DEAF)
    with quiet as quiets, deaf as deafs, cost as costs:
        for store in scale.stores:
            with deployed(store, USUAL_WORKER[store], SLOTS) as running:
                labels = {"store": store, "worker": running.worker}
                quiets.row(labels, _quiet(running, scale.pick(15.0, 3.0), scale))
                none: list[float] = []
                some: list[float] = []
                for _ in notebook.takes(turns):
                    none.append(_per_job(running, warm, length))
                    with listening(running, LISTENERS):
                        some.append(_per_job(running, warm, length))
                    time.sleep(RESUME_SECONDS)
                factors = [with_them / without for with_them, without in zip(some, none, strict=True)]
                costs.row(
                    labels,
                    {
                        "without": Figure(values=none, digits=1),
                        f"{LISTENERS} listeners": Figure(values=some, digits=1),
                        "factor": Figure(values=factors, most=MAX_CPU_FACTOR, digits=3),
                    },
                )
                deafs.row(labels, _deaf(running, length))
                consistency.check(notebook, running)
    return notebook.findings()


@contextlib.contextmanager
def _fed(running: Deployment) -> Iterator[None]:
    feeder = Feeder(running, batch=SMALL_BATCH, rate=RATE, in_flight=20 * BATCH)
    feeder.start()
    try:
        yield
    finally:
        feeder.stop()


def _per_job(running: Deployment, warm: float, length: float) -> float:
    with _fed(running):
        time.sleep(warm)
        done, spent = running.executed, _spent(running)
        time.sleep(length)
        per_job = (_spent(running) - spent) / max(1, running.executed - done) * 1e6
    running.await_rest()
    return per_job


def _spent(running: Deployment) -> float:
    return sum(seconds for name, seconds in running.cpu_seconds().items() if name != "load")


def _quiet(running: Deployment, length: float, scale: Scale) -> dict[str, Figure]:
    percents: dict[str, list[float]] = {"without": [], "with": []}
    for _ in range(scale.times(3)):
        percents["without"].append(_idle(running, length))
        with listening(running, TABS):
            percents["with"].append(_idle(running, length))
    more = [some - none for some, none in zip(percents["with"], percents["without"], strict=True)]
    return {
        "without": Figure(values=percents["without"], digits=2),
        f"{TABS} listeners": Figure(values=percents["with"], digits=2),
        "more": Figure(values=more, most=MAX_QUIET_PERCENT, digits=2),
    }


def _idle(running: Deployment, length: float) -> float:
    time.sleep(1.0)
    spent = running.cpu_seconds()["server"]
    time.sleep(length)
    return (running.cpu_seconds()["server"] - spent) / length * 100


def _deaf(running: Deployment, length: float) -> dict[str, Figure]:
    with _fed(running):
        time.sleep(length / 2)
        before = running.memory_mib()["server"]
        with listening(running, DEAF, deaf=True):
            time.sleep(length)
            after = running.memory_mib()["server"]
    running.await_rest()
    return {"MiB each": Figure(values=[max(0.0, after - before) / DEAF], most=MAX_DEAF_MIB, digits=3)}
