"""The speed gate: is the working tree as fast as another commit?

make compare BASE=REV [ARGS="lifecycle --store sqlite"]

Measures both in alternating turns on both stores: life cycle, drain and ingest (rate, and CPU per job of all Timeball
and database processes), and how late jobs start (p50, p99). Slots, batches and every other option are set here, so that
a changed default does not count as speed. `bench/comparison.py` decides. A case that noise leaves undecided gets more
turns, as long as there is time. Calls per job (`bench/calls.py`) are shown first; they are not judged. Exit code 0:
passed; 1: slower, or undecided; 2: it could not be measured.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import consistency, machine, revisions
from bench.batch_load import HEADERS, NOOP, submit
from bench.calls import calls_per_job
from bench.comparison import (
    AGAINST_BASE,
    AGAINST_PARENT,
    MAX_TURNS,
    MIN_TURNS,
    Bounds,
    Lateness,
    Sample,
    Throughput,
    Verdict,
)
from bench.deployment import IN_PROCESS, NONE, SEPARATE, STORES, USUAL_WORKER, Deployment, Trouble, deployed
from bench.fire_lateness import Mark, fire, one_by_one
from bench.measurements import median, percentile
from bench.sections.lifecycle import steady
from bench.single_posts import generator, post

SLOTS: Final = 2_000
LIFECYCLE_WARM_UP, LIFECYCLE_WINDOW = 1.0, 2.5
"""Seconds."""
BACKLOG: Final = 40_000
POST_SECONDS: Final = 2.0
POST_CONNECTIONS: Final = 64
BATCHED_JOBS: Final = 30_000
IDLE_JOBS: Final = 40
STEADY_FIRES: Final = [index / 1_000 for index in range(3_000)]
"""The due times of 1,000 jobs per second for three seconds."""
DEFAULT_MINUTES: Final = 40.0

P50_LIMITS: Final = {"max_factor": 1.1, "max_more_ms": 1.0}
P99_LIMITS: Final = {"max_factor": 1.5, "max_more_ms": 10.0}


@dataclass(frozen=True)
class Measured:
    """The results of one measurement of one revision, by case."""

    throughput: dict[str, Sample]
    lateness: dict[str, list[float]]
    """By case: how late each job started, in milliseconds."""


@dataclass(frozen=True)
class Measurement:
    section: str
    store: str
    worker: str
    take: Callable[[Deployment], Measured]

    @property
    def label(self) -> str:
        return f"{self.section}, {self.store}, worker {self.worker}"

    def of(self, source: Path | None) -> Measured:
        first_worker = NONE if self.section in ("drain", "ingest") else self.worker
        with deployed(self.store, first_worker, SLOTS, source=source) as running:
            return self.take(running)

    def calls_of(self, source: Path | None) -> Mapping[str, float]:
        return calls_per_job(self.section, self.store, self.worker, SLOTS, source)

    def title(self, case: str) -> str:
        return f"{case}, {self.store}" + ("" if self.worker == NONE else f", {self.worker}")


# --- the measurements ---------------------------------------------------------------------------------------------


def lifecycle(running: Deployment) -> Measured:
    found = steady(running, LIFECYCLE_WARM_UP, LIFECYCLE_WINDOW)
    _check(running)
    return Measured({"life cycle": Sample(found.rate, sum(found.cpu.values()) - found.cpu["load"])}, {})


def drain(running: Deployment) -> Measured:
    """Measure from the start of the worker until nearly all of the backlog was executed."""
    submit(running, BACKLOG)
    if USUAL_WORKER[running.store] == IN_PROCESS:
        running.stop("server")
        running.start("up")
    else:
        running.start("worker")
    with _counted(running) as sample:
        running.await_executed(BACKLOG * 19 // 20)
    running.await_rest()
    _check(running)
    return Measured({"drain": sample()}, {})


def ingest(running: Deployment) -> Measured:
    """Submit one job per request, then batches, without a worker."""
    spent = _cpu_seconds(running)
    body = json.dumps(NOOP).encode()
    posts = post(f"{running.url}/v1/jobs", body, HEADERS, connections=POST_CONNECTIONS, seconds=POST_SECONDS)
    if posts.failed:
        raise Trouble(f"{posts.failed} of {posts.answers} requests failed")
    single = Sample(posts.rate, (_cpu_seconds(running) - spent) / posts.answers * 1e6)
    spent, began = _cpu_seconds(running), time.monotonic()
    submit(running, BATCHED_JOBS)
    took = time.monotonic() - began
    batched = Sample(BATCHED_JOBS / took, (_cpu_seconds(running) - spent) / BATCHED_JOBS * 1e6)
    return Measured({"ingest, one per request": single, "ingest, batches": batched}, {})


def lateness(running: Deployment) -> Measured:
    idle = _lateness_ms(one_by_one(running, IDLE_JOBS))
    busy = _lateness_ms(fire(running, STEADY_FIRES, bit_by_bit=True))
    _check(running)
    return Measured({}, {"start lateness, idle": idle, "start lateness, 1,000/s": busy})


def _lateness_ms(marks: list[Mark]) -> list[float]:
    if early := sum(mark.late < 0 for mark in marks):
        raise Trouble(f"{early} of {len(marks)} jobs started early")
    return [mark.late for mark in marks]


@contextlib.contextmanager
def _counted(running: Deployment) -> Iterator[Callable[[], Sample]]:
    """Yield a function that returns the rate and the CPU per executed job since the beginning of the block."""
    executed, spent, began = running.executed, _cpu_seconds(running), time.monotonic()
    taken: list[Sample] = []
    yield lambda: taken[0]
    jobs = max(running.executed - executed, 1)
    taken.append(Sample(jobs / (time.monotonic() - began), (_cpu_seconds(running) - spent) / jobs * 1e6))


def _cpu_seconds(running: Deployment) -> float:
    """Return the CPU time of the server, the worker and the database. The load generator costs both sides the same."""
    return sum(spent for name, spent in running.cpu_seconds().items() if name != "load")


def _check(running: Deployment) -> None:
    if wrong := consistency.differences(running):
        raise Trouble("; ".join(wrong))


MEASUREMENTS: Final = tuple(
    Measurement(take.__name__, store, worker, take)
    for store in STORES
    for take, workers in (
        (lifecycle, (IN_PROCESS, SEPARATE)),
        (drain, (USUAL_WORKER[store],)),
        (ingest, (NONE,)),
        (lateness, (USUAL_WORKER[store],)),
    )
    for worker in workers
)
SECTIONS: Final = tuple(dict.fromkeys(each.section for each in MEASUREMENTS))


# --- turns --------------------------------------------------------------------------------------------------------


class Comparison:
    """All turns so far, of the new revision and of the base."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._samples: dict[tuple[Measurement, str], list[tuple[Sample, Sample]]] = defaultdict(list)
        self._lateness: dict[tuple[Measurement, str], list[tuple[list[float], list[float]]]] = defaultdict(list)

    def add(self, measurement: Measurement, new: Measured, base: Measured) -> None:
        for case, sample in new.throughput.items():
            self._samples[measurement, case].append((sample, base.throughput[case]))
        for case, values in new.lateness.items():
            self._lateness[measurement, case].append((values, base.lateness[case]))

    def undecided(self, measurement: Measurement) -> bool:
        return any(
            Throughput(pairs).verdict(self._bounds) is Verdict.UNDECIDED
            for (of, _), pairs in self._samples.items()
            if of is measurement
        )

    def last_ratios(self, measurement: Measurement) -> str:
        return ", ".join(
            f"{case}: rate {pairs[-1][0].rate / pairs[-1][1].rate:.2f} CPU {pairs[-1][0].cpu / pairs[-1][1].cpu:.2f}"
            for (of, case), pairs in self._samples.items()
            if of is measurement
        )

    def report(self) -> bool:
        """Print the tables. Return True if everything passed."""
        verdicts: list[Verdict] = []
        ratios = f"{'rate, new / base':24}{'CPU per job, new / base':26}"
        print(f"\n{'':52}{'turns':>6}  {ratios}{'base jobs/s':>12}{'base µs':>9}")
        for (measurement, case), pairs in self._samples.items():
            found = Throughput(pairs)
            verdicts.append(found.verdict(self._bounds, last=True))
            rate, cpu = median(base.rate for _, base in pairs), median(base.cpu for _, base in pairs)
            title = f"{measurement.title(case):52}{len(pairs):>6}"
            print(f"{title}  {found.rate!s:24}{found.cpu!s:26}{rate:>12,.0f}{cpu:>9.1f}  {verdicts[-1]}")
        if self._lateness:
            print(f"\n{'':52}{'turns':>6}  {'base ms':>9}{'new ms':>9}{'limit ms':>9}")
        for (measurement, case), turns in self._lateness.items():
            for name, share, limits in (("p50", 0.5, P50_LIMITS), ("p99", 0.99, P99_LIMITS)):
                late = Lateness([(percentile(new, share), percentile(base, share)) for new, base in turns], **limits)
                verdicts.append(late.verdict)
                title = f"{case}, {measurement.store}, {name}"
                print(f"{title:52}{len(turns):>6}  {late.base:>9.1f}{late.new:>9.1f}{late.limit:>9.1f}  {late.verdict}")
        return all(verdict is Verdict.PASSED for verdict in verdicts)


def compare(measurements: list[Measurement], base: Path, comparison: Comparison, turns: int, deadline: float) -> bool:
    """Measure in turns until everything is decided or the time is up. Return True if every case had its minimum of
    turns.
    """
    for turn in range(1, max(turns, MAX_TURNS) + 1):
        wanted = [each for each in measurements if turn <= turns or comparison.undecided(each)]
        for measurement in wanted:
            if time.monotonic() > deadline:
                print(f"the time is up in turn {turn}", flush=True)
                return turn > turns
            sides: dict[bool, Measured] = {}
            for is_new in (True, False) if turn % 2 else (False, True):
                sides[is_new] = measurement.of(None if is_new else base)
            comparison.add(measurement, sides[True], sides[False])
            print(f"turn {turn}: {measurement.label}: {comparison.last_ratios(measurement)}", flush=True)
        if not wanted:
            break
    return True


def show_calls(measurements: list[Measurement], base: Path) -> None:
    print(f"\n{'calls per job (not judged)':52}{'base':>9}{'new':>9}{'new / base':>12}")
    for measurement in measurements:
        old = measurement.calls_of(base)
        for case, calls in measurement.calls_of(None).items():
            ratio = calls / old[case]
            print(f"{measurement.title(case):52}{old[case]:>9.1f}{calls:>9.1f}{ratio:>12.3f}", flush=True)
    print(flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"by default all: {', '.join(SECTIONS)}")
    parser.add_argument("--base", help="the commit to compare with; by default the one in bench/BASE")
    parser.add_argument("--store", choices=STORES, help="only on this store")
    parser.add_argument("--turns", type=int, default=MIN_TURNS, help=f"at least so many turns (default {MIN_TURNS})")
    parser.add_argument("--minutes", type=float, default=DEFAULT_MINUTES, help="stop after so long (default 40)")
    given = parser.parse_args()
    if unknown := [name for name in given.sections if name not in SECTIONS]:
        parser.error(f"there is no section {unknown[0]!r}; known are {', '.join(SECTIONS)}")
    try:
        commit = revisions.commit_of(given.base or revisions.long_term_base())
    except revisions.UnknownRevision as error:
        parser.error(str(error))
    measurements = [
        each
        for each in MEASUREMENTS
        if each.section in (given.sections or SECTIONS) and given.store in (None, each.store)
    ]
    for number in (signal.SIGINT, signal.SIGTERM):  # the processes that were started are stopped, however this ends
        signal.signal(number, signal.default_int_handler)
    bounds = AGAINST_PARENT if given.base else AGAINST_BASE
    print(
        f"The working tree against {revisions.subject_of(commit)}\n{machine.described()}; single POSTs by {generator()}"
    )
    print(f"slots {SLOTS:,}; passes with rate ≥ {bounds.min_rate} and CPU per job ≤ {bounds.max_cpu}", flush=True)
    comparison = Comparison(bounds)
    with revisions.source_of(commit) as base:
        deadline = time.monotonic() + given.minutes * 60
        try:
            show_calls(measurements, base)
            complete = compare(measurements, base, comparison, given.turns, deadline)
        except Trouble as trouble:
            print(f"it could not be measured: {trouble}")
            return 2
    passed = comparison.report()
    if not complete:
        print(f"\nNOT PASSED: some cases had fewer than {given.turns} turns; narrow with ARGS or raise --minutes")
    elif passed:
        print("\nPASSED: as fast as the base")
    else:
        print("\nNOT PASSED: see the cases above")
    return 0 if passed and complete else 1


if __name__ == "__main__":
    sys.exit(main())
