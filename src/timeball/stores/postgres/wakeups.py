"""Wakeups between servers, by LISTEN and NOTIFY."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final

import asyncpg
import structlog

from timeball.ports.store.store import MessageListener, WakeupListener

CHANNEL: Final = "timeball"
MESSAGE_CHANNEL: Final = "timeball_events"
"""The channel of messages between servers. Servers of earlier versions do not listen to it."""
MAX_UNSENT_MESSAGES: Final = 8
"""Maximum number of messages that wait for the connection. Later ones are dropped."""
NOTIFY_DELAY: Final = 0.003
NOTIFY_INTERVAL: Final = 0.01
"""Minimum seconds between two rounds of NOTIFY, each for all that is waiting: under load, one NOTIFY per wakeup would
cost as much as the jobs that it announces."""
LOOK_EVERY: Final = 1.0
"""Seconds between two checks whether the connection is closed."""
PROBE_AFTER: Final = 10
"""Number of checks without a message to send after which the server is queried: a connection that only listens never
fails by itself."""
PROBE_SECONDS: Final = 5.0
"""Maximum seconds that the query of `PROBE_AFTER` may take; then the connection counts as broken."""
RECONNECT_AFTER: Final = 0.5
_log = structlog.get_logger()


class PostgresWakeups:
    """Sends and receives wakeups, and messages between servers, over one connection of its own. NOTIFY is sent outside
    of transactions, because it takes a lock on the whole cluster. Wakeups that are requested within a few milliseconds
    are sent as one NOTIFY."""

    def __init__(self, connect: Callable[[], Awaitable[asyncpg.Connection[Any]]]) -> None:
        self.listeners: list[WakeupListener] = []
        self._connect = connect
        self._topics: dict[str, None] = {}
        self._something = asyncio.Event()
        self.message_listeners: list[MessageListener] = []
        self._messages: list[str] = []
        """Messages to the other servers that are not sent yet."""

    def wake_all(self, topic: str) -> None:
        self._topics[topic] = None
        self._something.set()

    def send(self, message: str) -> None:
        if len(self._messages) < MAX_UNSENT_MESSAGES:
            self._messages.append(message)
            self._something.set()
        else:
            self._tell_loss()

    async def keep_listening(self) -> None:
        while True:
            try:
                await self._serve()
            except Exception as error:
                _log.warning("wakeups from other servers are interrupted", error=str(error) or type(error).__name__)
            await asyncio.sleep(RECONNECT_AFTER)

    async def _serve(self) -> None:
        connection = await self._connect()
        try:
            await connection.add_listener(CHANNEL, self._heard)
            await connection.add_listener(MESSAGE_CHANNEL, self._received)
            self._tell_loss()  # messages may have been lost while there was no connection
            idle = 0
            while not connection.is_closed():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_EVERY):  # `wait_for` can lose the cancellation of `close`
                        await self._something.wait()
                idle += 1
                if self._something.is_set():
                    idle = 0
                    await asyncio.sleep(NOTIFY_DELAY)
                    if connection.is_closed():
                        break  # the next connection sends what is waiting
                    topics, self._topics = self._topics, {}
                    messages, self._messages = self._messages, []
                    self._something.clear()
                    if topics:
                        await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, ",".join(topics))
                    for message in messages:
                        await connection.execute("SELECT pg_notify($1, $2)", MESSAGE_CHANNEL, message)
                    await asyncio.sleep(NOTIFY_INTERVAL)
                elif idle >= PROBE_AFTER:
                    idle = 0
                    await connection.execute("SELECT 1", timeout=PROBE_SECONDS)
        finally:
            connection.terminate()

    def _heard(self, connection: Any, pid: int, channel: str, payload: object) -> None:
        if pid != connection.get_server_pid():
            for topic in str(payload).split(","):
                for hint in self.listeners:
                    hint(topic)

    def _tell_loss(self) -> None:
        for listener in self.message_listeners:
            listener(None)

    def _received(self, connection: Any, pid: int, channel: str, payload: object) -> None:
        if pid != connection.get_server_pid():
            for listener in self.message_listeners:
                listener(str(payload))
