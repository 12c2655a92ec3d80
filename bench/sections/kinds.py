"""Measures jobs that do real work, each kind beside its raw limit: the same work without Timeball, on the same CPUs.

With `timeball up` on SQLite and a separate worker on PostgreSQL, and, except in the quick sizes, with the worker in the
other place; with default settings, and with many slots. All of them and the raw limit are measured in turns. Each turn
gives a ratio, from which the speed of the machine cancels out; the median of the ratios is judged.

    python -m bench kinds --kind http --store sqlite --part burst --turns 5
    python -m bench kinds --kind http --store sqlite --part burst --base main
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from bench import consistency, revisions
from bench.batch_load import BATCH
from bench.deployment import USUAL_WORKER, Deployment
from bench.kinds import limits, peers
from bench.kinds.burst import Burst
from bench.kinds.catalogue import BURST, KINDS, LATENESS, PARTS, PEERS, STEADY, Kind
from bench.kinds.lateness import lateness
from bench.kinds.site import BASE, DEFAULT, OTHER_PLACE, RAW, Site, site, slots_name
from bench.kinds.steady import steady
from bench.measurements import Figure, Findings, median
from bench.recorder import Recorder, Scale, TableInProgress, say

TURNS: Final = 5
MAX_JOBS, QUICK_JOBS = 60_000, 20
"""Maximum size of a burst."""
MIN_STEADY_JOBS: Final = 40
"""Minimum number of jobs in the window of a steady state, if they are as fast as in a burst."""
MAX_LATE_OVER_RAW: Final = 5.0
"""Milliseconds: the bound for the start lateness over the raw cost of the kind, in the best turn."""

Sides = Mapping[str, Callable[[], Burst]]


def run(scale: Scale) -> Findings:
    notebook = Recorder("kinds", "Kinds of jobs: real work beside its raw limit")
    parts = [part for part in PARTS if part in (scale.parts or PARTS)]
    with contextlib.ExitStack() as stack:
        base = None
        if scale.base is not None:
            base = stack.enter_context(revisions.source_of(revisions.commit_of(scale.base)))
        tables = stack.enter_context(_tables(notebook, scale))
        for store in scale.stores:
            for kind in KINDS:
                if scale.kinds and kind.name not in scale.kinds:
                    continue
                with site(kind, store, base, both_places=scale.both_places) as here:
                    measuring = _KindBench(notebook, here, scale, tables)
                    for part in parts:
                        measuring.measure(part)
                    for running in here.deployments.values():
                        consistency.check(notebook, running)
    return notebook.findings()


@contextlib.contextmanager
def _tables(notebook: Recorder, scale: Scale) -> Iterator[dict[str, TableInProgress]]:
    submission: dict[str, object] = {"batches": BATCH, "connections": 1}
    warm, window = _steady_seconds(scale)
    steady_state = submission | {"window": f"{window:g} s, or {MIN_STEADY_JOBS} jobs, after {warm:g} s or more"}
    titles: dict[str, tuple[str, dict[str, object]]] = {
        BURST: ("Burst: jobs per second from the first submission until the last success", submission),
        "costs": ("What a job of a burst costs: CPU in µs, by process; µs/job is without the load", submission),
        STEADY: ("Steady state: jobs per second, and CPU in µs per job without the load", steady_state),
        LATENESS: ("Start lateness in ms with idle slots", {"jobs": _late_jobs(scale), "submitted": "one by one"}),
        PEERS: (
            "A burst with default settings, and a drain by a peer: jobs per second",
            {"peer jobs": _peer_jobs(scale)},
        ),
    }
    with contextlib.ExitStack() as stack:  # the last table to be entered is the first to be shown
        yield {
            name: stack.enter_context(notebook.table(title, turns=scale.times(TURNS), **configuration))
            for name, (title, configuration) in reversed(titles.items())
        }


def _steady_seconds(scale: Scale) -> tuple[float, float]:
    """Return the seconds before the window of a steady state, and those of the window."""
    return scale.pick((1.0, 3.0), (0.2, 0.3))


def _late_jobs(scale: Scale) -> int:
    return scale.pick(20, 3)


def _peer_jobs(scale: Scale) -> int:
    return scale.pick(peers.JOBS, 200)


class _KindBench:
    """Measures one kind on one store, and fills the tables."""

    def __init__(self, notebook: Recorder, here: Site, scale: Scale, tables: Mapping[str, TableInProgress]) -> None:
        self._notebook = notebook
        self._here = here
        self._kind = here.kind
        self._scale = scale
        self._tables = tables
        self._most = scale.pick(MAX_JOBS, QUICK_JOBS)
        self._rate = here.warm_up(self._most)

    def measure(self, part: str) -> None:
        {BURST: self._bursts, STEADY: self._steady, LATENESS: self._lateness, PEERS: self._peers}[part]()

    def _bursts(self) -> None:
        sides = self._here.sides(partial(self._here.burst, jobs=self._jobs), self._seconds)
        found = self._turns(BURST, sides)
        for name, bursts in found.items():
            labels = self._labels(name)
            jobs = {} if name == RAW and self._kind.has_program else {"jobs": Figure(values=[self._jobs])}
            self._tables[BURST].row(labels, jobs | self._rates(found, name, bounded=True))
            self._tables["costs"].row(labels, cpu(bursts))

    def _steady(self) -> None:
        warm, window = _steady_seconds(self._scale)
        window = max(window, MIN_STEADY_JOBS / self._rate)

        def measure(running: Deployment, kind: Kind) -> Burst:
            return steady(running, [self._here.task(kind)], self._rate, warm, window, self._here.target)

        found = self._turns(STEADY, self._here.sides(measure, self._seconds))
        for name, bursts in found.items():
            costs = {"µs/job": Figure(values=[each.cpu_total for each in bursts], digits=1)}
            self._tables[STEADY].row(self._labels(name), self._rates(found, name, bounded=False) | costs)

    def _lateness(self) -> None:
        here, jobs = self._here, _late_jobs(self._scale)
        ours, raw = [], []
        for turn in self._takes():
            ours.append(median(lateness(here.default, here.task(self._kind, start=True), jobs)))
            raw.append(median(limits.starts(self._kind, jobs, here.target, here.default.scripts)))
            say(f"{here.store}, {self._kind.name}, lateness, turn {turn + 1}: {ours[-1]:.2f} ms, raw {raw[-1]:.2f} ms")
        best = min(mine - its for mine, its in zip(ours, raw, strict=True))
        figures = {
            "p50": Figure(values=ours, digits=2),
            "raw p50": Figure(values=raw, digits=2),
            "p50 over raw, best turn": Figure(values=[best], most=MAX_LATE_OVER_RAW, digits=2),
        }
        labels = {"store": here.store, "worker": USUAL_WORKER[here.store], "kind": self._kind.name}
        self._tables[LATENESS].row(labels, figures)

    def _peers(self) -> None:
        here, kind = self._here, self._kind
        if not kind.peers:
            return
        sides: Sides = {DEFAULT: partial(here.burst, here.default, kind, jobs=self._jobs)}
        found = self._turns(
            PEERS, {**sides, **{name: partial(peers.drained, name, _peer_jobs(self._scale)) for name in kind.peers}}
        )
        for name in kind.peers:
            bound = (kind.min_peer_ratio or {}).get(name)
            figures = {
                "jobs/s": rates(found[DEFAULT]),
                "peer jobs/s": rates(found[name]),
                "× peer": Figure(values=ratios(found[DEFAULT], found[name]), least=bound, digits=2),
                "CPU × peer": Figure(values=cpu_ratios(found[DEFAULT], found[name]), digits=2),
            }
            labels = {"store": here.store, "worker": USUAL_WORKER[here.store], "kind": kind.name, "peer": name}
            self._tables[PEERS].row(labels, figures)

    @property
    def _seconds(self) -> float:
        return self._scale.pick(2.0, 0.2)

    @property
    def _jobs(self) -> int:
        """The size of a burst, with two digits: what takes two seconds, and at least twice the warm-up."""
        jobs = min(max(int(self._rate * self._seconds), 2 * self._kind.first_jobs), self._most)
        step: int = 10 ** (len(str(jobs)) - 2)
        return jobs // step * step

    def _takes(self) -> Iterator[int]:
        return self._notebook.takes(self._scale.times(TURNS))

    def _turns(self, part: str, sides: Sides) -> dict[str, list[Burst]]:
        """Measure all sides in each turn, in alternating order."""
        found: dict[str, list[Burst]] = {name: [] for name in sides}
        for turn in self._takes():
            for name in [*sides] if turn % 2 == 0 else reversed([*sides]):
                found[name].append(sides[name]())
            last = ", ".join(
                f"{name} {each[-1].rate:,.0f}/s {each[-1].cpu_total:,.0f} µs" for name, each in found.items()
            )
            say(f"{self._here.store}, {self._kind.name}, {part}, turn {turn + 1}: {last}")
        return found

    def _labels(self, name: str) -> dict[str, str]:
        running = self._here.deployments.get(name, self._here.default)
        slots = {RAW: f"{RAW}: {self._kind.limit}", OTHER_PLACE: DEFAULT}.get(name, name)
        return {"store": self._here.store, "worker": running.worker, "kind": self._kind.name, "slots": slots}

    def _rates(self, found: Mapping[str, Sequence[Burst]], name: str, *, bounded: bool) -> dict[str, Figure]:
        """Return the columns of one side: its rate, and per turn the ratios to the raw limit and to the base."""
        limit = raw_side(self._kind)
        figures = {"jobs/s": rates(found[name])}
        if name != limit and (name != OTHER_PLACE or self._kind.has_program):
            bound = self._kind.min_ratio if bounded and name == DEFAULT else None
            figures["× raw"] = Figure(values=ratios(found[name], found[limit]), least=bound, digits=2)
            figures["CPU × raw"] = Figure(values=cpu_ratios(found[name], found[limit]), digits=2)
        if name == DEFAULT and BASE in found:
            figures["× base"] = Figure(values=ratios(found[name], found[BASE]), digits=2)
            figures["CPU × base"] = Figure(values=cpu_ratios(found[name], found[BASE]), digits=2)
        return figures


def raw_side(kind: Kind) -> str:
    """Return the name of the side that is the raw limit of a kind."""
    return RAW if kind.has_program or kind.beside is not None else slots_name(kind.many_slots)


def rates(found: Sequence[Burst]) -> Figure:
    return Figure(values=[each.rate for each in found])


def ratios(found: Sequence[Burst], other: Sequence[Burst]) -> list[float]:
    """Return the ratio of the rates in each turn."""
    return [each.rate / beside.rate for each, beside in zip(found, other, strict=True)]


def cpu_ratios(found: Sequence[Burst], other: Sequence[Burst]) -> list[float]:
    """Return the ratio of the CPU per job in each turn, without the load generator."""
    return [each.cpu_total / beside.cpu_total for each, beside in zip(found, other, strict=True)]


def cpu(found: Sequence[Burst]) -> dict[str, Figure]:
    """Return the columns of one side: CPU per job of all processes but the load generator, and of each process."""
    figures = {"µs/job": Figure(values=[each.cpu_total for each in found], digits=1)}
    for name in found[0].cpu:
        values = [each.cpu[name] for each in found]
        if any(values):
            figures[f"{name} µs"] = Figure(values=values, digits=1)
    return figures
