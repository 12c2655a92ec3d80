"""The event streams of a server: sends the events that the hub publishes, and ends streams whose credential was
revoked.

One asyncio task checks the credentials of all streams, each credential once, so that a waiting stream costs only its
connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Final

import structlog

from timeball.api.client_connection import ClientConnection
from timeball.domain.errors import Forbidden, Unauthorized
from timeball.domain.identity.caller import Caller
from timeball.domain.instant import MILLISECOND, SECOND, Micros
from timeball.operation.context import OperationContext
from timeball.operation.events.filters import EventFilter
from timeball.operation.events.listener import MAX_BACKLOG_BYTES, EventListener

CHECK_INTERVAL: Final = 1_500 * MILLISECOND
"""Microseconds between two checks of a credential. The authenticator may answer from a cache of 3 s, so a revoked key
is noticed within 5 s."""
MAX_UNCHECKED_TIME: Final = 5 * SECOND
"""A stream whose credential could not be checked for this long ends, for example while the store does not answer."""

Credential = bytes | str | None
"""The `Authorization` header of a request, or the digest of its web session."""
_log = structlog.get_logger()


class _Checked:
    """The streams of one credential."""

    def __init__(self, now: Micros) -> None:
        self.listeners: set[EventListener] = set()
        self.checked_at = now


class EventStreams:
    def __init__(self, context: OperationContext, authenticate: Callable[[Credential], Awaitable[Caller]]) -> None:
        self._context = context
        self._authenticate = authenticate
        self._streams: dict[Credential, _Checked] = {}
        self._checking: asyncio.Task[None] | None = None
        self._encoded = (b"", b"")
        """The chunk that was written last, without and with its transfer encoding."""

    async def open(
        self, caller: Caller, credential: Credential, where: EventFilter, last_id: str, client: ClientConnection | None
    ) -> AsyncIterator[bytes]:
        """Yield the frames of a new stream until it ends. If `client`, the connection of the request, is given, only
        the first frames are yielded, behind the head of the answer; all later frames are written to it directly."""
        clock = self._context.clock
        hub = self._context.events
        listener = hub.subscribe(caller.tenant, where, caller.credential, last_id, clock.monotonic(), self._context.rng)
        same = self._streams.setdefault(credential, _Checked(clock.monotonic()))
        same.listeners.add(listener)
        if self._checking is None:
            self._checking = asyncio.create_task(self._keep_checking(), name="event-streams")
        try:
            if client is not None:
                listener.on_slow = client.drop
                yield await listener.take()
                listener.write_to(partial(self._write, client))
            while chunk := await listener.take():
                yield chunk
        finally:
            hub.unsubscribe(listener, clock.monotonic())
            same.listeners.discard(listener)
            if not same.listeners:
                self._streams.pop(credential, None)

    def _write(self, client: ClientConnection, chunk: bytes) -> bool:
        """Write a chunk in the transfer encoding `chunked`. The encoded form is cached, because many clients get the
        same chunk one after the other."""
        known, encoded = self._encoded
        if known is not chunk:
            encoded = b"%x\r\n%b\r\n" % (len(chunk), chunk)
            self._encoded = (chunk, encoded)
        return client.write(encoded, MAX_BACKLOG_BYTES)

    async def _keep_checking(self) -> None:
        try:
            while self._streams:
                await self._context.clock.sleep(CHECK_INTERVAL)
                for credential, streams in list(self._streams.items()):
                    await self._check(credential, streams)
        finally:
            self._checking = None

    async def _check(self, credential: Credential, streams: _Checked) -> None:
        """End the streams of a credential that is not valid any more."""
        try:
            tenant = (await self._authenticate(credential)).tenant
        except (Unauthorized, Forbidden):
            tenant = None
        except Exception as error:
            if self._context.clock.monotonic() - streams.checked_at <= MAX_UNCHECKED_TIME - CHECK_INTERVAL:
                return
            _log.warning("event streams end, because their key cannot be checked", error=str(error))
            tenant = None
        streams.checked_at = self._context.clock.monotonic()
        for listener in list(streams.listeners):
            if listener.tenant != tenant:
                listener.close()
