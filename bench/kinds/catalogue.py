"""The kinds of jobs that `bench kinds` measures, each with its raw limit and its bound."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

THREADS: Final = 8
CONNECTIONS: Final = 32
CORES: Final = len(os.sched_getaffinity(0))
"""How many commands, HTTP calls and functions in processes the raw limits have at the same time."""
START_COMMAND: Final = ["date", "+::result %s%N"]
"""Prints when it was started, in the form that Timeball keeps as the result of a run."""
MANY_CALLS: Final = 200
MANY_COROUTINES: Final = 2_000
MANY_PROCESSES: Final = 8 * CORES
"""Slots of the second configuration, beside the default one."""
SCRIPTS: Final[Mapping[str, str]] = {
    "noop.sh": "exit 0\n",
    "start.sh": f"{START_COMMAND[0]} '{START_COMMAND[1]}'\n",
}
"""The scripts in the folder of the worker, by name."""


@dataclass(frozen=True)
class Kind:
    name: str
    limit: str
    """The raw limit: what is measured beside it."""
    task: Mapping[str, Any]
    """The task of a job that does nothing else. An HTTP task gets its URL later."""
    start_task: Mapping[str, Any]
    """The task of a job whose result is the time at which its work began, in nanoseconds."""
    first_jobs: int
    """Number of jobs that warm up a deployment. Their rate decides how many are measured."""
    many_slots: int
    """Slots of the second configuration, beside the default one."""
    beside: str | None = None
    """The kind that is the raw limit, with the same settings; None: a program of `bench.kinds.raw`, or for `async` the
    second configuration.
    """
    min_ratio: float | None = None
    """The bound for the rate with default settings, as a share of the raw limit."""
    peers: tuple[str, ...] = ()
    """The peers that have this kind, by their names in `bench.peers.catalogue`."""
    min_peer_ratio: Mapping[str, float] | None = None
    """The bounds for the rate with default settings, as multiples of that of a peer."""

    @property
    def has_program(self) -> bool:
        """True if the raw limit is a program of `bench.kinds.raw`."""
        return self.beside is None and self.name != "async"


def _python(name: str) -> dict[str, Any]:
    return {
        "task": {"kind": "python", "function": f"kinds.{name}"},
        "start_task": {"kind": "python", "function": f"kinds.{name}.start"},
    }


KINDS: Final = (
    Kind(
        name="http",
        limit=f"aiohttp, {CONNECTIONS} connections",
        task={"kind": "http"},
        start_task={"kind": "http"},
        first_jobs=1_000,
        many_slots=MANY_CALLS,
        min_ratio=0.5,
    ),
    Kind(
        name="shell",
        limit=f"posix_spawn, {THREADS} threads",
        task={"kind": "shell", "command": ["true"]},
        start_task={"kind": "shell", "command": START_COMMAND},
        first_jobs=200,
        many_slots=MANY_CALLS,
        min_ratio=0.5,
    ),
    Kind(
        name="script",
        limit=f"posix_spawn, {THREADS} threads",
        task={"kind": "script", "script": "noop.sh"},
        start_task={"kind": "script", "script": "start.sh"},
        first_jobs=200,
        many_slots=MANY_CALLS,
    ),
    Kind(
        name="async",
        limit=f"itself, {MANY_COROUTINES:,} slots",
        **_python("async"),
        first_jobs=5_000,
        many_slots=MANY_COROUTINES,
        min_ratio=0.8,
    ),
    Kind(
        name="thread",
        limit="async, same settings",
        **_python("thread"),
        first_jobs=2_000,
        many_slots=MANY_CALLS,
        beside="async",
        min_ratio=0.6,
        peers=("celery-threads", "dramatiq"),
    ),
    Kind(
        name="process",
        limit=f"ProcessPoolExecutor, {CORES} processes",
        **_python("process"),
        first_jobs=20,
        many_slots=MANY_PROCESSES,
        peers=("celery-prefork",),
        min_peer_ratio={"celery-prefork": 3.0},
    ),
)
BURST, STEADY, LATENESS, PEERS = "burst", "steady", "lateness", "peers"
PARTS: Final = (BURST, STEADY, LATENESS, PEERS)
BY_NAME: Final = {kind.name: kind for kind in KINDS}
