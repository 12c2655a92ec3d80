"""Submits jobs for future moments, and reads when they started."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.batch_load import BATCH, Connection
from bench.deployment import KEY, Deployment, Trouble

LEAD = 2.0
"""Seconds between the first submission and the first due moment."""
MEDIUM = 5


@dataclass(frozen=True, slots=True)
class Mark:
    """The record that a job wrote when it began."""

    due: int
    started: int
    """Both times are in microseconds."""
    priority: int
    run_id: str

    @property
    def late(self) -> float:
        """How late the job started, in milliseconds."""
        return (self.started - self.due) / 1_000


def fire(
    running: Deployment,
    offsets: list[float],
    *,
    priorities: list[int] | None = None,
    lead: float = LEAD,
    bit_by_bit: bool = False,
    key: str = KEY,
    once_accepted: Callable[[], None] = lambda: None,
) -> list[Mark]:
    """Submit jobs that are due at these offsets (seconds, ascending). Return their records in the order in which they
    started.

    They are submitted `lead` seconds before the first is due. With `bit_by_bit`, the jobs of a tenth of a second are
    submitted together, this many seconds before they are due. `key` belongs to their tenant;
    `once_accepted` is called when all are accepted.
    """
    running.witness.write_bytes(b"")
    levels = priorities or [MEDIUM] * len(offsets)
    base = time.time() + lead
    jobs = [
        _job(int((base + offset) * 1e6), level) | _at(int((base + offset) * 1e6))
        for offset, level in zip(offsets, levels, strict=True)
    ]
    size = int(len(offsets) / offsets[-1] / 10) if bit_by_bit else BATCH
    connection = Connection(running, key)
    for start in range(0, len(jobs), size):
        if bit_by_bit:
            time.sleep(max(0.0, base + offsets[start] - lead - time.time()))
        connection.post("/v1/jobs:batch", json.dumps(jobs[start : start + size]).encode())
        running.submit(len(jobs[start : start + size]))
    accepted = time.time()
    connection.close()
    if accepted > base + (offsets[-1] if bit_by_bit else 0):
        raise Trouble(f"the jobs were accepted {accepted - base:.1f} s too late to be on time; {lead:g} s is too short")
    once_accepted()
    return _marks(running)


def one_by_one(running: Deployment, jobs: int) -> list[Mark]:
    """Submit jobs that are due when their request is sent, each after the previous one has ended."""
    running.witness.write_bytes(b"")
    connection = Connection(running)
    for _ in range(jobs):
        connection.post("/v1/jobs", json.dumps(_job(time.time_ns() // 1_000, MEDIUM)).encode())
        running.submitted += 1
        running.await_rest()
        time.sleep(0.02)
    connection.close()
    return _marks(running)


def _job(due: int, priority: int) -> dict[str, Any]:
    return {
        "task": {"kind": "python", "function": "bench.mark"},
        "parameters": {"due": due, "priority": priority},
        "priority": priority,
    }


def _at(due: int) -> dict[str, Any]:
    moment = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=due)
    return {"schedule": {"type": "date", "expression": moment.isoformat()}}


def _marks(running: Deployment) -> list[Mark]:
    """Return the records after all jobs have started and ended."""
    running.await_rest()
    lines = [line.split() for line in running.witness.read_text().splitlines()]
    return [Mark(int(due), int(started), int(priority), run_id) for due, started, priority, run_id in lines]
