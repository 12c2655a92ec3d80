"""One burst: a backlog is submitted in batches of 1,000 over one connection, while the worker executes it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.batch_load import BATCH, Connection
from bench.deployment import Deployment, Trouble
from bench.kinds import costs
from bench.kinds.target import Target

NOT_OURS: Final = "load"
"""The process whose CPU does not count: the load generator."""

LOOK_PAUSE: Final = 0.05
"""Seconds between two looks for the end of a burst. Its time is that of the last success, which the store has."""
TICK_SECONDS: Final = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Burst:
    """The result of a burst, or of a raw limit."""

    jobs: int
    seconds: float
    cpu_seconds: Mapping[str, float]
    """By process."""

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds

    @property
    def cpu(self) -> dict[str, float]:
        """Microseconds of CPU per job, by process."""
        return {name: spent / self.jobs * 1e6 for name, spent in self.cpu_seconds.items()}

    @property
    def cpu_total(self) -> float:
        """Microseconds of CPU per job of all processes except the load generator; at least one tick of the kernel's
        clock, in which CPU time is counted.
        """
        spent = sum(spent for name, spent in self.cpu_seconds.items() if name != NOT_OURS)
        return max(spent, TICK_SECONDS) / self.jobs * 1e6


def burst(running: Deployment, tasks: Sequence[Mapping[str, Any]], jobs: int, target: Target) -> Burst:
    """Submit jobs that are due at once and have these tasks in turn. The time is measured from the first request until
    the last run succeeded.
    """
    bodies = [body(tasks, size) for size in batches(jobs)]
    connection = Connection(running)
    spent, began = costs.cpu_seconds(running, target.pid), time.time_ns() // 1_000
    for each in bodies:
        connection.post("/v1/jobs:batch", each)
    connection.close()
    running.submitted += jobs
    running.await_no_runs(pause=LOOK_PAUSE)
    spent_after = costs.cpu_seconds(running, target.pid)
    ended = running.count(f"SELECT max(finished_at) FROM history WHERE created_at >= {began}")
    check_successes(running)
    return Burst(jobs, (ended - began) / 1e6, {name: spent_after[name] - spent[name] for name in spent})


def body(tasks: Sequence[Mapping[str, Any]], size: int) -> bytes:
    """Return a batch of jobs that are due at once and have these tasks in turn."""
    return json.dumps([{"task": tasks[number % len(tasks)]} for number in range(size)]).encode()


def batches(jobs: int) -> list[int]:
    """Return the sizes of the batches."""
    whole, rest = divmod(jobs, BATCH)
    return [BATCH] * whole + [rest] * bool(rest)


def check_successes(running: Deployment) -> None:
    """Raise `Trouble` unless every job that was submitted so far has succeeded."""
    succeeded = running.count("SELECT count(*) FROM history WHERE status = 'succeeded'")
    if succeeded == running.submitted:
        return
    with running.database() as opened:
        failures = opened.rows("SELECT status, failure FROM history WHERE status <> 'succeeded' LIMIT 1")
    raise Trouble(f"{succeeded:,} of {running.submitted:,} jobs succeeded; the first that did not: {failures}")
