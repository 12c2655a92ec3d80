"""Plans the faults: which occur, and when. The plan is made from a seed before anything starts, so the same seed gives
the same faults.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from msgspec import Struct

from timeball.chaos.history import Kind, Part
from timeball.system import seeded_rng

RESTING: Final = 2.0
"""Seconds after a fault for which its target still counts as broken, because it may have to start again."""
LEASE: Final = 15.0


class Planned(Struct, frozen=True):
    """A planned fault. Times are in seconds; `at` counts from the beginning of the load."""

    at: float
    kind: Kind
    part: Part
    target: str
    lasts: float
    weight: float = 0.0
    """For the kind `delay`: seconds by which every message is delayed."""

    def __str__(self) -> str:
        return f"{self.kind} {self.what} for {self.lasts:.1f} s"

    @property
    def what(self) -> str:
        """The process or the connections that the fault affects, as text."""
        if self.kind not in ("cut", "hang", "delay"):
            return self.target
        return f"{self.target} - {'database' if self.part == 'server' else 'servers'}"


def plan(
    seed: int, kinds: Sequence[Kind], *, seconds: float, every: float, servers: int, workers: int
) -> list[Planned]:
    """Return the faults of a campaign: one every `every` seconds, except when no target may be broken at that time.
    If there are two or more servers, at least one of them is without a fault at any time; the same holds for workers.
    """
    rng = seeded_rng(seed)
    faults: list[Planned] = []
    busy: dict[str, float] = {}
    at = every
    while kinds and at < seconds:
        kind = kinds[int(rng.random() * len(kinds))]
        lasts, weight = _length(kind, rng.random(), rng.random())
        lasts = min(lasts, seconds - at)
        broken = {target for target, until in busy.items() if until > at}
        targets = _targets(kind, servers, workers, broken)
        choice = rng.random()  # drawn even without a target, so that the later faults do not depend on the targets
        if targets:
            part, target = targets[int(choice * len(targets))]
            faults.append(Planned(at, kind, part, target, lasts, weight))
            busy[target] = at + lasts + RESTING
        at += every
    return faults


def names(part: Part, count: int) -> list[str]:
    return [f"{part}-{number}" for number in range(1, count + 1)]


def _targets(kind: Kind, servers: int, workers: int, broken: set[str]) -> list[tuple[Part, str]]:
    if kind == "command":
        return [("fleet", "fleet")]
    if kind == "restart":
        return [] if "database" in broken else [("database", "database")]
    found: list[tuple[Part, str]] = []
    parts: tuple[tuple[Part, int], ...] = (("server", servers), ("worker", workers))
    for part, count in parts:
        well = [name for name in names(part, count) if name not in broken]
        if len(well) > 1 or count == 1:
            found += [(part, name) for name in well]
    if kind in ("cut", "hang", "delay") and "client" not in broken:
        found.append(("client", "client"))
    return found


def _length(kind: Kind, first: float, second: float) -> tuple[float, float]:
    """Return the length of a fault in seconds, and its weight, from two random numbers."""
    match kind:
        case "kill":
            return 0.5 + first, 0.0
        case "pause":
            return (LEASE + 2 + 8 * second if first < 0.5 else 1 + 6 * second), 0.0
        case "cut":
            return 0.2 + 6 * first, 0.0
        case "hang":
            return 2 + 16 * first, 0.0
        case "delay":
            return 2 + 8 * first, 0.02 + 0.5 * second
        case "restart" | "command":
            return 0.0, 0.0
        case _:
            assert_never(kind)
