"""What one kind is measured with: deployments that run at the same time and are measured in turns, and the target."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.deployment import USUAL_WORKER, WORKERS, Deployment, deployed
from bench.kinds import limits
from bench.kinds.burst import Burst, burst
from bench.kinds.catalogue import BY_NAME, SCRIPTS, Kind
from bench.kinds.target import Target, target

DEFAULT: Final = "default"
RAW: Final = "raw limit"
BASE: Final = "default, base"
OTHER_PLACE: Final = "default, other place"
"""The worker in a process of its own where it is usually in that of the server, and the other way round."""
WARM_UP_SECONDS: Final = 0.5
WARM_UP_GROWTH: Final = 4


@dataclass(frozen=True)
class Site:
    kind: Kind
    store: str
    target: Target
    deployments: Mapping[str, Deployment]
    """By name: `DEFAULT`, the number of slots of the second configuration, `OTHER_PLACE`, `BASE`."""

    @property
    def default(self) -> Deployment:
        return self.deployments[DEFAULT]

    def task(self, kind: Kind, *, start: bool = False) -> Mapping[str, Any]:
        task = kind.start_task if start else kind.task
        return {**task, "url": self.target.url} if kind.name == "http" else task

    def burst(self, running: Deployment, kind: Kind, jobs: int) -> Burst:
        return burst(running, [self.task(kind)], jobs, self.target)

    def warm_up(self, most: int) -> float:
        """Use every deployment. Return the jobs per second of the default one, in a burst that took long enough to
        tell: the first jobs wait for what is started once, such as connections, threads and processes.
        """
        jobs = min(self.kind.first_jobs, most)
        for running in self.deployments.values():
            self.burst(running, self.kind, jobs)
        found = self.burst(self.default, self.kind, jobs)
        while found.seconds < WARM_UP_SECONDS and jobs < most:
            jobs = min(jobs * WARM_UP_GROWTH, most)
            found = self.burst(self.default, self.kind, jobs)
        for running in self.deployments.values():
            if running is not self.default:
                self.burst(running, self.kind, jobs)
        if self.kind.beside is not None:
            self.burst(self.default, BY_NAME[self.kind.beside], jobs)
        return found.rate

    def sides(self, measure: Callable[[Deployment, Kind], Burst], seconds: float) -> dict[str, Callable[[], Burst]]:
        """Return what is measured in each turn: every deployment, and the raw limit for so many seconds. That of
        `async` is one of the deployments.
        """
        sides: dict[str, Callable[[], Burst]] = {
            name: partial(measure, running, self.kind) for name, running in self.deployments.items()
        }
        if self.kind.beside is not None:
            sides[RAW] = partial(measure, self.default, BY_NAME[self.kind.beside])
        elif self.kind.has_program:
            sides[RAW] = partial(limits.rate, self.kind, seconds, self.target, self.default.scripts)
        return sides


@contextlib.contextmanager
def site(kind: Kind, store: str, base: Path | None, *, both_places: bool) -> Iterator[Site]:
    """Start the deployments of a kind and its target. With `both_places`, also one with the worker in the place that
    is not the usual one for the store.
    """
    usual = USUAL_WORKER[store]
    configurations: dict[str, tuple[str, int | None, Path | None]] = {
        DEFAULT: (usual, None, None),
        slots_name(kind.many_slots): (usual, kind.many_slots, None),
    }
    if both_places:
        configurations[OTHER_PLACE] = (next(place for place in WORKERS if place != usual), None, None)
    if base is not None:
        configurations[BASE] = (usual, None, base)
    with contextlib.ExitStack() as stack:
        deployments = {}
        for name, (worker, slots, source) in configurations.items():
            running = stack.enter_context(deployed(store, worker, slots, source=source, tasks="bench.kinds.tasks"))
            running.scripts.mkdir(exist_ok=True)
            for file, text in SCRIPTS.items():
                (running.scripts / file).write_text(text)
            deployments[name] = running
        yield Site(kind, store, stack.enter_context(target()), deployments)


def slots_name(slots: int) -> str:
    return f"{slots:,}"
