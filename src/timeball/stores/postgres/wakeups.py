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
NOTIFY_DELAY: Final = 0.003
NOTIFY_INTERVAL: Final = 0.01
"""Minimum seconds between two messages: under load each message would cost as much as the jobs that it announces."""
LOOK_EVERY: Final = 1.0
"""Seconds between two checks of the connection."""
PROBE_AFTER: Final = 10
"""Number of checks without a message to send after which the server is queried: a connection that only listens never
fails by itself."""
PROBE_SECONDS: Final = 5.0
"""Timeout of that query in seconds; after it the connection counts as broken."""
RECONNECT_AFTER: Final = 0.5
_log = structlog.get_logger()


class PostgresWakeups:
    """Sends and receives wakeups over one connection of its own. NOTIFY is sent outside of transactions, because it
    takes a lock on the whole cluster. Wakeups that arrive within a few milliseconds are sent as one message."""

    def __init__(self, connect: Callable[[], Awaitable[asyncpg.Connection[Any]]]) -> None:
        self.listeners: list[WakeupListener] = []
        self._connect = connect
        self._topics: dict[str, None] = {}
        self._something = asyncio.Event()
        self.message_listeners: list[MessageListener] = []
        self._message: str | None = None
        """The message that is to be sent next."""

    def wake_all(self, topic: str) -> None:
        self._topics[topic] = None
        self._something.set()

    def send(self, message: str) -> None:
        self._message = message
        self._something.set()

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
            for listener in self.message_listeners:  # messages may have been lost while there was no connection
                listener(None)
            idle = 0
            while not connection.is_closed():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._something.wait(), LOOK_EVERY)
                idle += 1
                if self._something.is_set():
                    idle = 0
                    await asyncio.sleep(NOTIFY_DELAY)
                    topics, self._topics = self._topics, {}
                    message, self._message = self._message, None
                    self._something.clear()
                    if topics:
                        await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, ",".join(topics))
                    if message is not None:
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

    def _received(self, connection: Any, pid: int, channel: str, payload: object) -> None:
        if pid != connection.get_server_pid():
            for listener in self.message_listeners:
                listener(str(payload))
