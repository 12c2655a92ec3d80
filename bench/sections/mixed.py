"""A load of several kinds of jobs for ten minutes, at 60 % of the capacity: how late they start, beside coroutines
alone.

The capacity is measured first: the rate of the same kinds of jobs in a steady state. Coroutines alone are measured
before and after the load, at the rate at which the server, the worker and the database use as much CPU as in the load.
Programs beside them use as much as the guard, the job processes and the target of HTTP calls did.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench import consistency
from bench.deployment import USUAL_WORKER, Deployment, deployed
from bench.kinds.burst import burst
from bench.kinds.steady import steady
from bench.kinds.target import target
from bench.measurements import Figure, Findings, median, percentile
from bench.mixed.filler import filling
from bench.mixed.load import Plan, Result, load
from bench.mixed.mix import ASYNC_ALONE, MIXED, Mix, shares
from bench.recorder import Recorder, Scale, TableInProgress, say

LOAD: Final = 0.6
"""The share of the capacity."""
MAX_LATE: Final = 2_000.0
"""Milliseconds."""
MAX_P99_OVER_ASYNC: Final = 3.0
MAX_CPU_OVER_MIXED: Final = 1.1
"""Coroutines alone that use more CPU than this would be late for that reason."""
MAX_GROWTH: Final = 2.0
"""Percent of the memory in the second minute."""


@dataclass(frozen=True)
class Sizes:
    seconds: float
    sample_seconds: float
    settled: int
    """Number of samples until the steady state: the first minute."""
    lead: float
    """Seconds from the submission of a job until it is due."""
    capacity: tuple[float, float]
    """Seconds before the window of the capacity, and those of the window."""
    warm_up: int
    """The number of jobs that are executed first."""
    probe: float
    """Seconds of a load that decides the rate or the CPU use of another one."""
    alone: float
    """Seconds of coroutines alone, before and after the load."""


USUAL: Final = Sizes(600, 10, 6, 2.0, (5.0, 20.0), 2_000, 15.0, 60.0)
QUICK: Final = Sizes(3, 0.5, 2, 0.6, (0.1, 0.5), 50, 0.6, 0.6)


def run(scale: Scale) -> Findings:
    notebook = Recorder("mixed", "A mixed load of all kinds of jobs")
    sizes = scale.pick(USUAL, QUICK)
    configuration = {
        "kinds": ", ".join(f"{share * 100:.0f} % {name}" for name, share in shares(MIXED).items()),
        "slots": "default",
        "due": f"one by one, submitted {sizes.lead:g} s before",
        "seconds": f"{sizes.seconds:g}",
    }
    with contextlib.ExitStack() as stack:  # the last table to be entered is the first to be shown
        titles = {
            "memory": "Memory in MiB, without mapped files and shared memory",
            "cpu": "CPU use in cores, by process",
            "late": "Start lateness in ms",
            "rates": "Jobs per second",
        }
        tables = {name: stack.enter_context(notebook.table(title, **configuration)) for name, title in titles.items()}
        for store in scale.stores:
            _Load(notebook, store, sizes, tables).measure()
    return notebook.findings()


class _Load:
    """Measures one store, and fills the tables."""

    def __init__(self, notebook: Recorder, store: str, sizes: Sizes, tables: Mapping[str, TableInProgress]) -> None:
        self._notebook = notebook
        self._store = store
        self._sizes = sizes
        self._tables = tables
        self._labels = {"store": store, "worker": USUAL_WORKER[store]}

    def measure(self) -> None:
        with (
            target() as answering,
            deployed(self._store, USUAL_WORKER[self._store], None, tasks="bench.kinds.tasks") as running,
        ):
            mix, alone = Mix(MIXED, answering), Mix(ASYNC_ALONE, answering)
            capacity = self._capacity(running, mix)
            found, beside = self._loads(running, mix, alone, capacity * LOAD)
            self._tables["rates"].row(self._labels, rate_figures(capacity, found))
            early = sum(each < 0 for result in (found, *beside) for each in result.all_late)
            self._notebook.check(early == 0, f"{self._store}: {early} jobs started early")
            for name, figures in lateness_figures(found, beside).items():
                self._tables["late"].row(self._labels | {"jobs": name}, figures)
            for name, figures in cpu_figures(found, beside).items():
                self._tables["cpu"].row(self._labels | {"load": name}, figures)
            for process, figures in memory_figures(
                [each.memory for each in found.samples], self._sizes.settled
            ).items():
                self._tables["memory"].row(self._labels | {"process": process}, figures)
            consistency.check(self._notebook, running)

    def _capacity(self, running: Deployment, mix: Mix) -> float:
        """Return the jobs per second in a steady state."""
        burst(running, mix.tasks, self._sizes.warm_up, mix.target)
        rate = burst(running, mix.tasks, self._sizes.warm_up, mix.target).rate
        capacity = steady(running, mix.tasks, rate, *self._sizes.capacity, mix.target).rate
        say(f"{self._store}: capacity {capacity:,.0f} jobs/s")
        return capacity

    def _loads(self, running: Deployment, mix: Mix, alone: Mix, rate: float) -> tuple[Result, list[Result]]:
        """Return the results of the load, and of coroutines alone before and after it."""
        sizes = self._sizes
        probe = self._load(running, mix, "probe", Plan(rate, sizes.probe, sizes.lead))
        alone_rate = self._rate_alone(running, alone, rate, probe.own_cores)
        beside = Plan(alone_rate, sizes.alone, sizes.lead)
        with filling(probe.other_cores) as fillers:
            before = self._load(running, alone, "async alone, before", beside, fillers)
        whole = Plan(rate, sizes.seconds, sizes.lead, sizes.sample_seconds)
        [found] = [self._load(running, mix, "mixed", whole) for _ in self._notebook.takes(1)]
        with filling(found.other_cores) as fillers:
            after = self._load(running, alone, "async alone, after", beside, fillers)
        return found, [before, after]

    def _rate_alone(self, running: Deployment, alone: Mix, rate: float, cores: float) -> float:
        """Return the rate at which coroutines alone need so much CPU. The CPU per job depends on the rate, so that it
        is approached in two steps.
        """
        for _ in range(2):
            found = self._load(running, alone, "async alone, probe", Plan(rate, self._sizes.probe, self._sizes.lead))
            rate *= cores / max(found.own_cores, 0.01)
        return rate

    def _load(self, running: Deployment, mix: Mix, name: str, plan: Plan, fillers: list[int] | None = None) -> Result:
        found = load(running, mix, plan, fillers)
        late = found.all_late
        say(
            f"{self._store}, {name}: {found.rate:,.0f} jobs/s, {found.own_cores:.2f} + {found.other_cores:.2f} cores,"
            f" p50 {percentile(late, 0.5):.1f} ms, p99 {percentile(late, 0.99):.1f} ms, max {max(late):.1f} ms"
        )
        return found


# --- what is judged -----------------------------------------------------------------------------------------------


def rate_figures(capacity: float, found: Result) -> dict[str, Figure]:
    return {
        "capacity": Figure(values=[capacity]),
        "load": Figure(values=[found.rate]),
        "accepted late": Figure(values=[float(found.accepted_late)], most=0),
    }


def lateness_figures(found: Result, beside: Sequence[Result]) -> dict[str, dict[str, Figure]]:
    """Return the rows of the table: all jobs of the load, each kind of them, and coroutines alone."""
    alone = {
        "jobs": Figure(values=[float(each.jobs) for each in beside]),
        "p50": Figure(values=[percentile(each.all_late, 0.5) for each in beside], digits=1),
        "p99": Figure(values=[percentile(each.all_late, 0.99) for each in beside], digits=1),
        "max": Figure(values=[max(each.all_late) for each in beside], digits=1),
    }
    rows = {"all": _late(found.all_late, most=MAX_LATE)}
    rows |= {name: _late(late) for name, late in found.late.items()}
    for figures in rows.values():
        bound = MAX_P99_OVER_ASYNC if figures is rows["all"] else None
        ratio = figures["p99"].median / alone["p99"].median
        figures["p99 × async alone"] = Figure(values=[ratio], most=bound, digits=2)
    return rows | {"async alone, same CPU use": alone}


def _late(late: Sequence[float], most: float | None = None) -> dict[str, Figure]:
    return {
        "jobs": Figure(values=[float(len(late))]),
        "p50": Figure(values=[percentile(late, 0.5)], digits=1),
        "p99": Figure(values=[percentile(late, 0.99)], digits=1),
        "max": Figure(values=[max(late)], most=most, digits=1),
    }


def cpu_figures(found: Result, beside: Sequence[Result]) -> dict[str, dict[str, Figure]]:
    rows = {"mixed": _cores([found]), "async alone": _cores(beside)}
    ratios = [each.total_cores / found.total_cores for each in beside]
    rows["async alone"]["× mixed"] = Figure(values=ratios, most=MAX_CPU_OVER_MIXED, digits=2)
    return rows


def _cores(results: Sequence[Result]) -> dict[str, Figure]:
    figures = {"all but the load": Figure(values=[each.total_cores for each in results], digits=2)}
    for name in results[0].cores:
        values = [each.cores[name] for each in results]
        if any(values):
            figures[name] = Figure(values=values, digits=2)
    return figures


def memory_figures(samples: Sequence[Mapping[str, float]], settled: int) -> dict[str, dict[str, Figure]]:
    """Return the rows of the table: each process, with its memory after `settled` samples and at the end."""
    rows = {}
    for process in samples[0]:
        used = [sample[process] for sample in samples]
        early, late = median(used[settled : 2 * settled]), median(used[-settled:])
        rows[process] = {
            "second minute": Figure(values=[early], digits=1),
            "last minute": Figure(values=[late], digits=1),
            "growth %": Figure(values=[late * 100 / early - 100], most=MAX_GROWTH, digits=1),
        }
    return rows
