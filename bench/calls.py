"""Calls per job: how many functions, in Python and in C, the processes of Timeball call for one plain job.

The figure hardly depends on the load of the machine. It supports the verdict of `bench/compare.py` on rate and CPU, and
does not replace it: calls differ in their cost, and work in the database has none.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from bench.batch_load import HEADERS, NOOP, submit
from bench.deployment import NONE, Deployment, deployed
from bench.single_posts import post_each

JOBS: Final = 3_000
CONNECTIONS: Final = 64


def calls_per_job(section: str, store: str, worker: str, slots: int, source: Path | None) -> Mapping[str, float]:
    """Return the calls per job of each case of a section; none for a section that has no such figure."""
    if section not in _CASES:
        return {}
    found: dict[str, float] = {}
    with deployed(store, worker, slots, source=source, counting=True) as running:
        for case, load in _CASES[section].items():
            load(running)  # statements are compiled, connections opened, caches filled
            _settle(running, worker)
            before = running.calls
            load(running)
            _settle(running, worker)
            found[case] = (running.calls - before) / JOBS
    return found


def _batches(running: Deployment) -> None:
    submit(running, JOBS)


def _single(running: Deployment) -> None:
    body = json.dumps(NOOP).encode()
    asyncio.run(post_each(f"{running.url}/v1/jobs", body, HEADERS, connections=CONNECTIONS, requests=JOBS))


def _settle(running: Deployment, worker: str) -> None:
    if worker != NONE:
        running.await_rest()


_CASES: Final[Mapping[str, Mapping[str, Callable[[Deployment], None]]]] = {
    "lifecycle": {"life cycle": _batches},
    "ingest": {"ingest, one per request": _single, "ingest, batches": _batches},
}
