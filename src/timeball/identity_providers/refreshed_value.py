"""A document of an identity provider, kept in memory and read again from time to time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

import structlog

from timeball.domain.errors import Unavailable
from timeball.domain.instant import DAY, MINUTE, SECOND, Micros
from timeball.identity_providers.provider_http import ProviderError
from timeball.ports.clock import Clock

T = TypeVar("T")

FRESH_TIME: Final[Micros] = 5 * MINUTE
"""A value that is older than this is read again in the background when it is used. Until that read has succeeded, the
old value is used, and so a key that the provider has withdrawn is accepted."""
MAX_STALE_TIME: Final[Micros] = DAY
"""A value that is older than this is not used any more, even if the provider does not answer."""
FETCH_INTERVAL: Final[Micros] = 5 * SECOND
"""Minimum time between two requests for a value, whatever the requests of clients are."""

_log = structlog.get_logger()


class RefreshedValue(Generic[T]):
    def __init__(self, name: str, fetch: Callable[[], Awaitable[T]], clock: Clock) -> None:
        self._name = name
        self._fetch = fetch
        self._clock = clock
        self._value: T | None = None
        self._read_at: Micros = 0
        """When the value was read, on the monotonic clock."""
        self._next_fetch: Micros | None = None
        """No request is sent before; None: none was sent yet."""
        self._failure: str | None = None
        """Why the last request failed."""
        self._fetching: asyncio.Task[None] | None = None

    @property
    def has_failed(self) -> bool:
        """True if the last request failed."""
        return self._failure is not None

    def current(self) -> T | None:
        """Return the value without waiting; None if there is none, or if it is older than `MAX_STALE_TIME`. A value
        that is older than `FRESH_TIME` is read again in the background."""
        age = self._clock.monotonic() - self._read_at
        if self._value is None or age >= MAX_STALE_TIME:
            return None
        if age >= FRESH_TIME:
            self._start()
        return self._value

    async def get(self) -> T:
        """Return the value. Raise `Unavailable` if it is not known and cannot be read now."""
        value = self.current()
        if value is None:
            await self.renew()
            value = self.current()
        if value is None:
            raise Unavailable(f"{self._name} of the identity provider cannot be read now: try again in a moment")
        return value

    async def renew(self) -> bool:
        """Read the value again, and return True, also if the provider does not answer (`has_failed`). Return False
        without a request if the last one was sent less than `FETCH_INTERVAL` ago and has ended. Calls at the same time
        share one request."""
        self._start()
        if self._fetching is None:
            return False
        await asyncio.shield(self._fetching)
        return True

    async def close(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])

    def _start(self) -> None:
        now = self._clock.monotonic()
        if self._fetching is None and (self._next_fetch is None or now >= self._next_fetch):
            self._next_fetch = now + FETCH_INTERVAL
            self._fetching = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            self._value = await self._fetch()
            self._read_at = self._clock.monotonic()
            self._failure = None
        except (ProviderError, Unavailable) as error:
            self._failure = str(error)
            _log.warning(f"{self._name} of the identity provider could not be read", reason=self._failure)
        finally:
            self._fetching = None
