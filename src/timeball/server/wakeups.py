"""Wakeups of loops within one process. They also go to the other servers, through the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from timeball.domain.instant import SECOND, Micros
from timeball.ports.wakeups import Topic


class Subscription:
    """An event that a task can wait for with a timeout, without the extra asyncio task that `asyncio.wait_for`
    needs."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.set = self._event.set
        self.is_set = self._event.is_set
        self.clear = self._event.clear

    async def wait(self, at_most: Micros) -> None:
        alarm = asyncio.get_running_loop().call_later(at_most / SECOND, self._event.set)
        try:
            await self._event.wait()
        finally:
            alarm.cancel()


class LocalWakeups:
    """Implements `ports.wakeups.Wakeups`: wakes the loops of this process that wait for a topic, and sends the topic to
    the other servers with the function that it is given."""

    def __init__(self, wake_all: Callable[[str], None]) -> None:
        self._wake_all = wake_all
        self._subscriptions: dict[Topic, list[Subscription]] = {topic: [] for topic in Topic}
        self._by_name = {topic.value: subscriptions for topic, subscriptions in self._subscriptions.items()}

    def wake(self, topic: Topic) -> None:
        self.deliver(topic)
        self._wake_all(topic)

    def deliver(self, topic: str) -> None:
        """Wake the loops of this process only. `wake` calls it, and the store for a wakeup that another server sent. A
        server of a later version may send topics that this one does not know."""
        for subscription in self._by_name.get(topic, ()):
            subscription.set()

    def subscribe(self, topic: Topic, subscription: Subscription) -> None:
        self._subscriptions[topic].append(subscription)

    def unsubscribe(self, topic: Topic, subscription: Subscription) -> None:
        self._subscriptions[topic].remove(subscription)

    async def wait(self, topic: Topic, at_most: Micros) -> None:
        subscription = Subscription()
        self.subscribe(topic, subscription)
        try:
            await subscription.wait(at_most)
        finally:
            self.unsubscribe(topic, subscription)
