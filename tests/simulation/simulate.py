"""Simulates one seed: one world, and one verdict."""

from __future__ import annotations

import gc
import logging
import random
from collections import Counter
from collections.abc import Iterator, MutableMapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from unittest import mock

import structlog

from tests.simulation import clocks
from tests.simulation.checker import Checker
from tests.simulation.loop import Deadlock
from tests.simulation.records import Violation
from tests.simulation.world import World
from timeball.stores.sql.runs import claiming

if TYPE_CHECKING:
    from tests.simulation.plants import Plant


@dataclass(slots=True)
class Outcome:
    seed: int
    again: str
    """The command line options that simulate the same world."""
    violation: str | None
    promise: str | None
    tail: list[str]
    """The end of the trace, as text."""
    digest: str
    """A hash of the whole trace: equal seeds have equal hashes."""
    steps: int
    virtual: float
    """Seconds of virtual time."""
    attempts: int
    requests: int
    bounded: bool
    faults: Counter[str] = field(default_factory=Counter)


def simulate(seed: int, plant: Plant | None = None, tail: int = 60, theme: str | None = None) -> Outcome:
    """Run one world to its end and check it. Violations are returned, not raised. Without a theme, the seed determines
    it.
    """
    gc_was_on = gc.isenabled()
    gc.disable()  # finalisers must not run at times that depend on the machine
    world = World(seed, plant.theme if theme is None and plant is not None else theme)
    try:
        planted = plant.planted(world) if plant is not None else nullcontext()
        with _listening(world), _small_claims(world), clocks.observed(world), planted:
            violation = _violation(world)
        return Outcome(
            seed=seed,
            again=f"--seed {seed}" if theme is None else f"--theme {theme} --seed {seed}",
            violation=None if violation is None else violation.detail,
            promise=None if violation is None else violation.promise,
            tail=[_line(entry) for entry in world.traced[-tail:]] if tail else [],
            digest=sha256(repr(world.traced).encode()).hexdigest(),
            steps=world.loop.steps,
            virtual=world.loop.now / 1e6,
            attempts=len(world.witnesses),
            requests=world.clients.requests,
            bounded=world.bounded,
            faults=world.damage.counts,
        )
    finally:
        world.close()
        if gc_was_on:
            gc.enable()


def _violation(world: World) -> Violation | None:
    try:
        world.run()
        if world.violation is None:
            Checker(world).check()
    except Violation as violation:
        return violation
    except Deadlock as deadlock:
        return Violation("I26", str(deadlock))
    if world.violation is None and world.loop.failures:
        return Violation("bug", world.loop.failures[0])
    return world.violation


def _small_claims(world: World) -> AbstractContextManager[object]:
    """In some worlds, let one claim assign so few runs that the next claim is often made before the workers
    poll again.
    """
    limit = random.Random(f"claims {world.seed}").choice((1, 2, 5, claiming.MAX_CLAIMS, claiming.MAX_CLAIMS))
    return mock.patch.object(claiming, "MAX_CLAIMS", limit)


@contextmanager
def _listening(world: World) -> Iterator[None]:
    """Treat a log entry about a failed turn of a loop as a violation. Servers log such a turn and repeat it."""

    def listen(_: Any, level: str, event: MutableMapping[str, Any]) -> Any:
        if level in ("error", "exception", "critical"):
            detail = f"{event.get('event')} {event.get('loop')}"
            world.fail(Violation("bug", f"{detail}: {_current_error()}"))
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[listen], cache_logger_on_first_use=False)
    worker_log = logging.getLogger("timeball.worker")
    scribe = _Scribe(world)
    worker_log.addHandler(scribe)
    propagated, worker_log.propagate = worker_log.propagate, False
    try:
        yield
    finally:
        worker_log.propagate = propagated
        worker_log.removeHandler(scribe)
        structlog.configure(**before)


class _Scribe(logging.Handler):
    """Adds the log entries of workers to the trace."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        self._world.trace("worker says", record.getMessage())


def _current_error() -> str:
    import traceback

    return traceback.format_exc(limit=-4)


def _line(entry: tuple[Any, ...]) -> str:
    return f"{entry[0] / 1e6:12.6f}  " + "  ".join(str(part) for part in entry[1:])
