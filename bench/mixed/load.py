"""One load: jobs that are due at a steady rate. How late each started, and what the processes used."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bench import processes
from bench.deployment import Deployment
from bench.kinds import costs
from bench.kinds.burst import check_successes
from bench.mixed import starts
from bench.mixed.arrivals import START_DELAY, Arrivals, Submitter
from bench.mixed.mix import Mix

OWN: Final = ("server", "worker", "postgres")
"""The processes that every kind of job uses. The others are those of HTTP calls and commands, the load generator, and
programs that are in their place.
"""
FILLERS, LOAD = "fillers", "load"


@dataclass(frozen=True)
class Sample:
    """The state in the middle of a load."""

    memory: dict[str, float]
    """MiB by process."""


@dataclass(frozen=True)
class Result:
    jobs: int
    seconds: float
    late: dict[str, list[float]]
    """By kind: how late each job started, in milliseconds."""
    cores: dict[str, float]
    """The CPU time per second by process."""
    samples: list[Sample]
    accepted_late: int = 0
    """Number of jobs in batches that were accepted after the first of them was due."""

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds

    @property
    def all_late(self) -> list[float]:
        return [each for late in self.late.values() for each in late]

    @property
    def own_cores(self) -> float:
        return sum(used for name, used in self.cores.items() if name in OWN)

    @property
    def other_cores(self) -> float:
        """The use of the processes that only some kinds of jobs have."""
        return self.total_cores - self.own_cores

    @property
    def total_cores(self) -> float:
        """The use of all processes except the load generator."""
        return sum(used for name, used in self.cores.items() if name != LOAD)


@dataclass(frozen=True)
class Plan:
    """How a load is made and watched."""

    rate: float
    seconds: float
    lead: float
    """Seconds from the submission of a job until it is due."""
    sample_seconds: float | None = None
    """The time between two samples; None: no samples."""


def load(running: Deployment, mix: Mix, plan: Plan, fillers: list[int] | None = None) -> Result:
    """Submit the jobs of a plan, and wait until all have ended. The CPU time is that between the instants at which the
    first and the last job are due.
    """
    first = time.time_ns() // 1_000 + int((plan.lead + START_DELAY) * 1e6)
    arrivals = Arrivals(first, plan.rate, max(1, int(plan.rate * plan.seconds)), mix.kinds)
    submitter = Submitter(running, arrivals, mix.tasks, plan.lead)
    submitter.start()
    try:
        _sleep_until(first / 1e6)
        began, spent = time.monotonic(), _cpu_seconds(running, mix, fillers or [])
        samples = list(_samples(running, plan, began))
        _sleep_until(arrivals.due(arrivals.jobs) / 1e6)
        seconds, spent_after = time.monotonic() - began, _cpu_seconds(running, mix, fillers or [])
    finally:
        submitter.finish()
    running.await_no_runs(pause=0.1)
    check_successes(running)
    cores = {name: (spent_after[name] - spent[name]) / seconds for name in spent}
    late = starts.lateness(running, arrivals)
    return Result(arrivals.jobs, seconds, late, cores, samples, submitter.accepted_late)


def _samples(running: Deployment, plan: Plan, began: float) -> Iterator[Sample]:
    if plan.sample_seconds is None:
        return
    for number in range(int(plan.seconds / plan.sample_seconds)):
        time.sleep(max(0.0, began + (number + 1) * plan.sample_seconds - time.monotonic()))
        yield Sample(running.memory_mib() | costs.guard_memory_mib(running))


def _cpu_seconds(running: Deployment, mix: Mix, fillers: list[int]) -> dict[str, float]:
    spent = costs.cpu_seconds(running, mix.target.pid)
    return spent | {FILLERS: sum(processes.cpu_seconds(pid) for pid in fillers)}


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.time()))
