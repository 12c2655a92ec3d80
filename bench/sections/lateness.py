"""Measures how late jobs start. The jobs record it themselves; a bare timer with an fsync shows what this machine can
do.

Lateness is the time in milliseconds from the moment at which a job was due until its function began. For a job that is
due at once, it counts from the moment at which its request was sent, so that it includes the commit that accepts the
job and assigns it to a worker.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench import consistency
from bench.deployment import USUAL_WORKER, Deployment, deployed
from bench.fire_lateness import Mark, fire, one_by_one
from bench.machine_limits import timer_and_fsync
from bench.measurements import Figure, Findings, median, percentile
from bench.recorder import Recorder, Scale, TableInProgress

SLOTS = 2_000
IDLE_P50 = 5.0
SPREAD_OVER_PROBE = 15.0
HERD_MOST = 1_000.0
SUSTAINED_P99 = 50.0
SUSTAINED = 3_000
"""Jobs per second."""


@dataclass(frozen=True)
class Sizes:
    idle: int
    spread: int
    seconds: float
    herd: int
    sustained: float

    @property
    def offsets(self) -> list[float]:
        return [index * self.seconds / self.spread for index in range(self.spread)]


USUAL = Sizes(idle=200, spread=1_000, seconds=20.0, herd=10_000, sustained=15.0)
QUICK = Sizes(idle=30, spread=100, seconds=2.0, herd=1_000, sustained=2.0)


def run(scale: Scale) -> Findings:
    notebook = Recorder("lateness", "Start lateness")
    sizes, repeats = scale.pick(USUAL, QUICK), scale.times(3)
    with notebook.table("Start lateness in ms", slots=SLOTS, repeats=repeats, task="async function") as table:
        for store in scale.stores:
            with deployed(store, USUAL_WORKER[store], SLOTS) as running:
                _idle(notebook, table, running, sizes, repeats)
                _spread(notebook, table, running, sizes, repeats)
                _herd(notebook, table, running, sizes, repeats)
                _sustained(notebook, table, running, sizes, repeats)
                consistency.check(notebook, running)
    return notebook.findings()


def _idle(notebook: Recorder, table: TableInProgress, running: Deployment, sizes: Sizes, repeats: int) -> None:
    found, probes = [], []
    for _ in notebook.takes(repeats):
        probes.append(timer_and_fsync([index * 0.02 for index in range(sizes.idle // 2)]))
        found.append(_late(notebook, running, one_by_one(running, sizes.idle)))
    _row(table, running, f"{sizes.idle:,} one by one, due at once", found, p50=IDLE_P50)
    _row(table, running, "  bare timer + fsync beside it", probes)


def _spread(notebook: Recorder, table: TableInProgress, running: Deployment, sizes: Sizes, repeats: int) -> None:
    found, probes = [], []
    for _ in notebook.takes(repeats):
        probes.append(timer_and_fsync(sizes.offsets[: sizes.spread // 2]))
        found.append(_late(notebook, running, fire(running, sizes.offsets)))
    limit = median(percentile(late, 0.99) for late in probes) + SPREAD_OVER_PROBE
    _row(table, running, f"{sizes.spread:,} spread over {sizes.seconds:g} s", found, p99=limit)
    _row(table, running, "  bare timer + fsync beside it", probes)


def _herd(notebook: Recorder, table: TableInProgress, running: Deployment, sizes: Sizes, repeats: int) -> None:
    """Submit many jobs for one instant, of all priorities, in random order."""
    found, disorder = [], []
    for _ in notebook.takes(repeats):
        levels = [index * 7 % 10 for index in range(sizes.herd)]
        marks = fire(running, [0.0] * sizes.herd, priorities=levels, lead=8.0)
        found.append(_late(notebook, running, marks))
        disorder.append(float(out_of_order(marks)))
    order = Figure(values=disorder, most=0)
    _row(table, running, f"{sizes.herd:,} at one instant", found, most=HERD_MOST, out_of_order=order)


def _sustained(notebook: Recorder, table: TableInProgress, running: Deployment, sizes: Sizes, repeats: int) -> None:
    offsets = [index / SUSTAINED for index in range(int(SUSTAINED * sizes.sustained))]
    found = [_late(notebook, running, fire(running, offsets, bit_by_bit=True)) for _ in notebook.takes(repeats)]
    _row(table, running, f"{SUSTAINED:,}/s for {sizes.sustained:g} s", found, p99=SUSTAINED_P99)


def out_of_order(marks: list[Mark]) -> int:
    """Return how many jobs started after one of a lower rank."""
    behind, worst = 0, (-10, "")
    for mark in marks:
        rank = (-mark.priority, mark.run_id)
        behind += rank < worst
        worst = max(rank, worst)
    return behind


def _late(notebook: Recorder, running: Deployment, marks: list[Mark]) -> list[float]:
    early = sum(mark.late < 0 for mark in marks)
    notebook.check(early == 0, f"{running.store}: {early} of {len(marks)} jobs started early")
    return [mark.late for mark in marks]


def _row(
    table: TableInProgress,
    running: Deployment,
    what: str,
    found: list[list[float]],
    *,
    p50: float | None = None,
    p99: float | None = None,
    most: float | None = None,
    out_of_order: Figure | None = None,
) -> None:
    figures = {
        "p50": Figure(values=[percentile(late, 0.5) for late in found], most=p50, digits=1),
        "p99": Figure(values=[percentile(late, 0.99) for late in found], most=p99, digits=1),
        "max": Figure(values=[max(late) for late in found], most=most, digits=1),
    }
    if out_of_order is not None:
        figures["out of order"] = out_of_order
    table.row({"store": running.store, "worker": running.worker, "jobs": what}, figures)
