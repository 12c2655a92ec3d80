"""One background duty: the start/stop contract that all loops of a server share.

`start` and `stop` may be called in any order, any number of times; after `stop` returned nothing of the loop runs.
A turn that fails is logged and repeated: a loop never dies silently.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import ClassVar, Final

import structlog

from timeball.domain.errors import Unavailable
from timeball.domain.instant import MILLISECOND, SECOND, Micros
from timeball.ports.clock import Clock
from timeball.ports.hints import Topic
from timeball.service.hints import LocalHints, Subscription

TICK: Final = SECOND
"""The longest a loop rests. Only lost hints make it matter."""
_log = structlog.get_logger()


class Loop(ABC):
    name: ClassVar[str]
    topics: ClassVar[tuple[Topic, ...]] = ()

    def __init__(self, clock: Clock, hints: LocalHints) -> None:
        self._clock = clock
        self._hints = hints
        self._task: asyncio.Task[None] | None = None
        self._nudge = Subscription()
        self.turned_at: Micros | None = None
        """When the last turn ended, on the node's steady clock: who watches the loops looks at this."""

    @abstractmethod
    async def turn(self) -> Micros:
        """Do what there is to do; answers how long to rest before the next turn, unless woken."""

    def start(self) -> None:
        if self._task is None:
            for topic in self.topics:
                self._hints.subscribe(topic, self._nudge)
            self._nudge.set()
            self._task = asyncio.create_task(self._run(), name=self.name)

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is None:
            return
        for topic in self.topics:
            self._hints.unsubscribe(topic, self._nudge)
        task.cancel()
        await asyncio.wait([task])

    def nudge(self) -> None:
        """Do not rest; there is something to do."""
        self._nudge.set()

    async def _run(self) -> None:
        failures = 0
        me = asyncio.current_task()
        # A cancel may get lost in a turn: `wait_for` forgets one that comes together with what it waits for.
        while self._task is me:
            self._nudge.clear()
            try:
                rest = min(TICK, await self.turn())
                failures = 0
            except Unavailable as error:
                failures += 1
                rest = min(TICK, 50 * MILLISECOND << min(failures, 5))
                if failures == 1:
                    _log.warning("the store does not answer", loop=self.name, error=str(error))
            except Exception:
                failures += 1
                rest = min(TICK, 50 * MILLISECOND << min(failures, 5))
                _log.exception("a turn failed and is repeated", loop=self.name)
            self.turned_at = self._clock.monotonic()
            if self._task is me:
                await self._nudge.wait(rest)
