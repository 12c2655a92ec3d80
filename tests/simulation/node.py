"""A process of the simulated fleet: it can be killed, paused and restarted, and has its own clocks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any

from tests.simulation.loop import FATE, Fate, Micros, VirtualLoop


class NodeClock:
    """Implements `ports.clock.Clock` for one node: monotonic, with an origin that differs from node to node."""

    def __init__(self, loop: VirtualLoop, origin: Micros) -> None:
        self._loop = loop
        self.origin = origin

    def monotonic(self) -> Micros:
        return self._loop.now + self.origin

    async def sleep(self, length: Micros) -> None:
        until = self.monotonic() + length
        while (left := until - self.monotonic()) > 0:
            await asyncio.sleep(left / 1e6)


class Node:
    """One process, from its start to its death."""

    def __init__(self, loop: VirtualLoop, name: str, origin: Micros) -> None:
        self.loop = loop
        self.name = name
        self.fate = Fate()
        self.clock = NodeClock(loop, origin)
        self.died_at: Micros | None = None
        self.on_death: list[Callable[[], None]] = []
        self._context = _context_of(self.fate)

    @property
    def alive(self) -> bool:
        return not self.fate.dead

    @property
    def paused(self) -> bool:
        return self.fate.paused

    def call(self, function: Callable[..., object], *args: Any) -> None:
        """Call a function soon, in the context of this process."""
        self.loop.call_soon(function, *args, context=self._context)

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        return self.loop.create_task(coroutine, name=name, context=self._context.copy())

    def kill(self) -> None:
        """End the process as `kill -9` does: no clean-up, and all memory is lost."""
        if self.fate.dead:
            return
        self.fate.dead = True
        self.fate.backlog.clear()
        self.died_at = self.loop.now
        for callback in self.on_death:
            callback()

    def pause(self) -> None:
        self.fate.paused = True

    def resume(self) -> None:
        if self.alive and self.fate.paused:
            self.loop.resume(self.fate)


def _context_of(fate: Fate) -> Context:
    context = copy_context()
    context.run(FATE.set, fate)
    return context
