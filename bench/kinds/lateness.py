"""How late a job starts when all slots are idle: from the request that submits it until its work began.

The work itself reads the clock: the target when the request arrived, the command `date`, the function when it was
called.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Final

from bench.batch_load import Connection
from bench.database import Database
from bench.deployment import Deployment, Trouble
from bench.kinds.raw import PAUSE

WARM_UP: Final = 1
"""Number of jobs before the measured ones."""
LOOK_DELAY: Final = 0.03
"""Seconds after a request until the first look for the end of its run, so that the look takes no CPU from its start."""
LOOK_PAUSE: Final = 0.005
MAX_SECONDS: Final = 60.0


def lateness(running: Deployment, task: Mapping[str, Any], jobs: int) -> list[float]:
    """Submit jobs that are due at once, each after the previous one has ended. Return how late each started, in
    milliseconds.
    """
    body, connection = json.dumps({"task": task}).encode(), Connection(running)
    sent_at: dict[str, int] = {}
    with running.database() as opened:
        for _ in range(WARM_UP + jobs):
            time.sleep(PAUSE)
            sent = time.time_ns()
            accepted = json.loads(connection.post("/v1/jobs", body))
            sent_at[accepted["jobId"]] = sent
            running.submitted += 1
            time.sleep(LOOK_DELAY)
            _await_end(opened)
        connection.close()
        rows = opened.rows(
            f"SELECT job_id, result FROM history WHERE created_at >= {min(sent_at.values()) // 1_000} ORDER BY id"
        )
    started_at = {job_id: start_of(json.loads(result or "null")) for job_id, result in rows}
    late = [(started_at[job_id] - sent) / 1e6 for job_id, sent in sent_at.items()]
    if early := sum(each < 0 for each in late):
        raise Trouble(f"{early} of {len(late)} jobs started early")
    return late[WARM_UP:]


def _await_end(opened: Database) -> None:
    deadline = time.monotonic() + MAX_SECONDS
    while opened.rows("SELECT 1 FROM runs LIMIT 1"):
        if time.monotonic() > deadline:
            raise Trouble(f"a run that was submitted alone was still alive after {MAX_SECONDS:g} s")
        time.sleep(LOOK_PAUSE)


def start_of(result: Any) -> int:
    """Return when the work began: the result of a job is this time, or an HTTP answer with it."""
    started = result["body"] if isinstance(result, dict) else result
    if not isinstance(started, int):
        raise Trouble(f"a job was to return when it started, and returned {result!r}")
    return started
