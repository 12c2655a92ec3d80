"""A steady state: batches are submitted while the number of live runs is bounded, and a window in the middle counts."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bench.batch_load import BATCH, IN_FLIGHT, Connection
from bench.deployment import Deployment, Trouble
from bench.kinds import costs
from bench.kinds.burst import Burst, body, check_successes
from bench.kinds.target import Target

MIN_IN_FLIGHT: Final = 40
FULL_PAUSE: Final = 0.05
"""Seconds before the number of live runs is read again, after it was at its bound."""
MAX_SECONDS: Final = 300.0
"""Maximum time until the end of the window."""


def steady(
    running: Deployment, tasks: Sequence[Mapping[str, Any]], rate: float, warm: float, window: float, target: Target
) -> Burst:
    """Submit jobs that have these tasks in turn, measure a window, and wait until all runs have ended. `rate` is the
    expected number of jobs per second: work for half a second is in flight, and at least two jobs for each slot. The
    window begins after `warm` seconds, when as many jobs have ended.
    """
    in_flight = min(IN_FLIGHT, max(MIN_IN_FLIGHT, 2 * (running.slots or 0), int(rate / 2)))
    batch = min(BATCH, in_flight // 4)
    batch = max(batch - batch % len(tasks), len(tasks))
    jobs = body(tasks, batch)
    connection, started, sent = Connection(running), time.monotonic(), 0
    began, until, spent = 0, math.inf, {}
    with running.database() as opened:
        while (now := time.monotonic()) < until:
            if now > started + MAX_SECONDS:
                raise Trouble(f"{sent} jobs were submitted, and not {in_flight} of them ended within {MAX_SECONDS:g} s")
            alive = int(opened.rows("SELECT count(*) FROM runs")[0][0])
            if not began and now >= started + warm and sent - alive >= in_flight:
                began, until, spent = time.time_ns() // 1_000, now + window, costs.cpu_seconds(running, target.pid)
            if alive + batch > in_flight:
                time.sleep(FULL_PAUSE)
                continue
            connection.post("/v1/jobs:batch", jobs)
            sent += batch
            running.submitted += batch
    ended, spent_after = time.time_ns() // 1_000, costs.cpu_seconds(running, target.pid)
    connection.close()
    running.await_no_runs()
    check_successes(running)
    done = running.count(f"SELECT count(*) FROM history WHERE finished_at >= {began} AND finished_at < {ended}")
    if not done:
        raise Trouble(f"no job ended within {window:g} s")
    return Burst(done, (ended - began) / 1e6, {name: spent_after[name] - spent[name] for name in spent})
