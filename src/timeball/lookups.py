"""Resolves host names to addresses, each in a thread of its own.

`getaddrinfo` uses everything that the system is configured with (hosts file, name servers and others), and cannot be
interrupted: it takes half a minute if a name server does not answer. The event loop's own lookups share a few threads
with other work of the process (two with uvloop), so that a few such names would delay the lookups of all other names.
Here each name gets a thread while it is resolved, and all callers that need the name at that time share the answer.
Addresses are cached for `CACHE_SECONDS`.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import socket
import threading
from math import inf
from typing import Final

from msgspec import Struct

from timeball.resource_shortage import is_shortage

MAX_LOOKUPS: Final = 256
"""Maximum number of names that are resolved at the same time. A thread that waits for a name server takes about 50 KiB.
"""
CACHE_SECONDS: Final = 10.0
"""Seconds for which resolved addresses are used again."""
MAX_REMEMBERED: Final = 1_000
"""Maximum number of names whose addresses are cached, and of names whose failures are remembered."""
FORGOTTEN_AFTER: Final = 600.0
"""Seconds after which the failures of a name are forgotten, if it was not looked up in between."""
WARNING_SECONDS: Final = 60.0
"""Minimum number of seconds between two warnings about names that fail."""
ALWAYS: Final = "localhost"
"""The name that is resolved even if `MAX_LOOKUPS` is reached, because the system answers it at once."""


_log = logging.getLogger("timeball.lookups")


class NotLookedUp(Exception):
    """Raised if this process cannot start to resolve a name now. The reason has nothing to do with the name."""

    def __init__(self, reason: str, *, shortage: bool) -> None:
        super().__init__(reason)
        self.shortage = shortage
        """True if the machine cannot start a thread. False if the maximum number of names is being resolved already."""


class ResolvedAddress(Struct, frozen=True):
    family: int
    proto: int
    host: str
    """The numeric address; an IPv6 address with its scope, if it has one."""


_Key = tuple[str, int]
_Found = list[ResolvedAddress] | BaseException


class Lookups:
    """The lookups of one event loop."""

    def __init__(self, max_lookups: int = MAX_LOOKUPS) -> None:
        self._max_lookups = max_lookups
        self._pending: dict[_Key, asyncio.Future[_Found]] = {}
        self._cache: dict[_Key, tuple[float, list[ResolvedAddress]]] = {}
        """The cached addresses by name, and the instant until which they are used."""
        self._failing: dict[str, tuple[float, float]] = {}
        """The instants of the first and the last failed lookup, by host name, for names that no name server answered
        for."""

        self._warn_at = 0.0

    async def addresses(self, host: str, family: int = socket.AF_UNSPEC) -> list[ResolvedAddress]:
        """Return the addresses of a host. Raise `OSError` (`gaierror`) if the host has none or no name server answered,
        `ValueError` if the name is not valid, and `NotLookedUp` if this process cannot start a lookup now. If a caller
        is cancelled, the lookup continues, because other callers may wait for it.
        """
        if (literal := _literal(host, family)) is not None:
            return [literal]
        loop = asyncio.get_running_loop()
        key = (host, family)
        until, addresses = self._cache.get(key, (0.0, []))
        if loop.time() < until:
            return addresses
        pending = self._pending.get(key)
        if pending is None:
            pending = self._begin(key, loop)
        found = await asyncio.shield(pending)
        if isinstance(found, BaseException):
            raise copy.copy(found)  # other callers raise the same error
        return found

    def failing_for(self, host: str) -> float:
        """Return for how many seconds the lookups of a name have failed because no name server had an answer. Call this
        after such a failure: for a name without a remembered failure the result is infinite. At most `MAX_REMEMBERED`
        names are remembered, so this also happens if too many names fail.
        """
        since, seen = self._failing.get(_bare(host), (-inf, 0.0))
        return seen - since

    def _begin(self, key: _Key, loop: asyncio.AbstractEventLoop) -> asyncio.Future[_Found]:
        is_free = len(self._pending) < self._max_lookups or _bare(key[0]) == ALWAYS
        if not is_free:
            raise NotLookedUp(f"{len(self._pending)} other names are being resolved", shortage=False)
        pending: asyncio.Future[_Found] = loop.create_future()
        thread = threading.Thread(target=self._look_up, args=(key, loop), name="timeball-lookup", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:
            if is_shortage(error):
                raise NotLookedUp(str(error), shortage=True) from error
            raise
        self._pending[key] = pending
        return pending

    def _look_up(self, key: _Key, loop: asyncio.AbstractEventLoop) -> None:
        found: _Found
        try:
            found = _addresses(*key)
        except BaseException as error:
            found = error
        with contextlib.suppress(RuntimeError):  # raised if the event loop is closed
            loop.call_soon_threadsafe(self._note, key, found, loop)

    def _note(self, key: _Key, found: _Found, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        if isinstance(found, list):
            self._cache.pop(key, None)
            if len(self._cache) >= MAX_REMEMBERED:
                del self._cache[next(iter(self._cache))]
            self._cache[key] = (now + CACHE_SECONDS, found)
        if isinstance(found, socket.gaierror) and found.errno == socket.EAI_AGAIN:
            self._note_failing(_bare(key[0]), now)
        else:
            self._failing.pop(_bare(key[0]), None)
        self._pending.pop(key).set_result(found)

    def _note_failing(self, host: str, now: float) -> None:
        since, seen = self._failing.get(host, (now, -inf))
        if now - seen > FORGOTTEN_AFTER:
            since = now
        if now >= self._warn_at:
            self._warn_at = now + WARNING_SECONDS
            _log.warning("no name server has an answer for %s (%d other names failed before)", host, len(self._failing))
        if host not in self._failing and len(self._failing) >= MAX_REMEMBERED:
            recent = {name: kept for name, kept in self._failing.items() if now - kept[1] <= FORGOTTEN_AFTER}
            self._failing = recent
        if host in self._failing or len(self._failing) < MAX_REMEMBERED:
            self._failing[host] = (since, now)


def _bare(host: str) -> str:
    return host.rstrip(".").lower()


def _literal(host: str, family: int) -> ResolvedAddress | None:
    """Return the address if the host is written as one, which needs no lookup; else None."""
    for kind in (socket.AF_INET, socket.AF_INET6):
        if family in (socket.AF_UNSPEC, kind):
            with contextlib.suppress(OSError, ValueError):
                socket.inet_pton(kind, host)
                return ResolvedAddress(kind, socket.IPPROTO_TCP, host)
    return None


def _addresses(host: str, family: int) -> list[ResolvedAddress]:
    found: list[ResolvedAddress] = []
    infos = socket.getaddrinfo(host, None, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    for kind, _, proto, _, address in infos:
        if kind == socket.AF_INET6 and len(address) == 4 and address[3]:  # a link-local address needs its scope
            numbers, _ = socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
        else:
            numbers = str(address[0])
        found.append(ResolvedAddress(kind, proto, numbers))
    if not found:
        raise socket.gaierror(socket.EAI_NONAME, "no address is known for this name")
    return found
