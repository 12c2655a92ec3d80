"""When the jobs of a load started, by what they recorded themselves."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from bench.database import Database
from bench.deployment import Deployment, Trouble
from bench.kinds.lateness import start_of
from bench.mixed.arrivals import Arrivals

READ_SECONDS: Final = 60
"""The runs that were due within this time are read together."""


def lateness(running: Deployment, arrivals: Arrivals) -> dict[str, list[float]]:
    """Return by kind how late each job started, in milliseconds; negative: early. All runs must have ended. Raise
    `Trouble` unless the history has exactly one run for each job, due at the instant of the job.
    """
    late: dict[str, list[float]] = defaultdict(list)
    number = 0
    with running.database() as opened:
        for due, result in _rows(opened, arrivals):
            if number == arrivals.jobs or due != arrivals.due(number):
                raise Trouble(f"the history has a run due at {due} that no job asked for, or lacks one before it")
            started = start_of(json.loads(result or "null"))
            late[arrivals.kind(number)].append((started - due * 1_000) / 1e6)
            number += 1
    if number != arrivals.jobs:
        raise Trouble(f"{arrivals.jobs:,} jobs were submitted, and the history has {number:,} runs of them")
    return dict(late)


def _rows(opened: Database, arrivals: Arrivals) -> Iterator[tuple[Any, ...]]:
    begin, last = arrivals.first, arrivals.due(arrivals.jobs - 1)
    while begin <= last:
        end = begin + READ_SECONDS * 1_000_000
        yield from opened.rows(
            f"SELECT fire_time, result FROM history WHERE fire_time >= {begin} AND fire_time < {end}"
            f" AND fire_time <= {last} ORDER BY fire_time"
        )
        begin = end
