"""Bugs planted on purpose: a checker that catches nothing proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.world import World


@dataclass(frozen=True)
class Plant:
    """One bug: `plant` puts it into a world and gives back how to take it out again."""

    name: str
    plant: Callable[[World], Callable[[], None] | None]

    @contextmanager
    def planted(self, world: World) -> Iterator[None]:
        undo = self.plant(world)
        try:
            yield
        finally:
            if undo is not None:
                undo()


PLANTS: dict[str, Plant] = {}
