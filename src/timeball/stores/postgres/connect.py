"""How connections to PostgreSQL are made: to whichever of several hosts takes writes, with the settings that every
statement relies on, and so that the end of the other side is noticed within seconds.

An address may name several hosts, as for libpq: `postgresql://a,b:5433/timeball?target_session_attrs=read-write`. Each
gets a few seconds of its own, since a host without power does not even refuse, and the one that answered last is asked
first. If nothing else is said, of several hosts the one that takes writes is meant.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import asyncpg

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

Connection: TypeAlias = "asyncpg.Connection[Any] | PoolConnectionProxy[Any]"

PER_HOST: Final = 3.0
"""Seconds for one of several hosts to let us in."""
SILENCE: Final = 5
"""Seconds without a sign of life, on an idle connection or after something was sent, until it counts as broken."""
SETTINGS: Final = {
    "application_name": "timeball",
    "synchronous_commit": "on",
    "default_transaction_isolation": "read committed",
    # A server that stands still inside a transaction lets go of its locks before its lease is over.
    "idle_in_transaction_session_timeout": "10s",
    "jit": "off",
    "timezone": "UTC",
    # Every statement has its index. A plan that was kept from when a table was small reads all of it: claims among
    # 300,000 runs that arrived before the next ANALYZE took 118 ms with kept plans, 13 ms with these two settings.
    "plan_cache_mode": "force_custom_plan",
    "enable_seqscan": "off",
}
_ATTRIBUTES: Final = "target_session_attrs"


@dataclass(frozen=True, slots=True)
class Own:
    """Connections that lead to the database itself and stay as they are: it remembers settings and statements."""

    least: int
    most: int
    statement_cache_size: ClassVar[int] = 1024
    settings: ClassVar[dict[str, str]] = SETTINGS
    stay: ClassVar[bool] = True
    """Whether statements outside of a transaction need nothing to keep the connection."""

    def transaction(self, connection: Connection) -> AbstractAsyncContextManager[object]:
        return connection.transaction()

    def alone(self, connection: Connection) -> AbstractAsyncContextManager[object]:
        """For a statement that is a transaction by itself."""
        return contextlib.nullcontext()

    def reading(self, connection: Connection) -> AbstractAsyncContextManager[object]:
        """A read sees what was committed before each of its statements: it needs no transaction."""
        return contextlib.nullcontext()


class Pooled(Own):
    """Connections to a pooler that leads each transaction to any of its own connections to the database. So nothing
    is remembered from one to the next: settings come with each transaction, and statements are not kept. A statement
    is prepared and executed in two steps, between which only a transaction keeps the same connection: reads are in one,
    too."""

    statement_cache_size = 0
    settings: ClassVar[dict[str, str]] = {}
    stay = False

    @contextlib.asynccontextmanager
    async def transaction(self, connection: Connection) -> AsyncIterator[None]:
        await connection.execute(_BEGIN)
        try:
            yield
        except BaseException:
            if not connection.is_closed():
                await connection.execute("ROLLBACK")
            raise
        await connection.execute("COMMIT")

    alone = transaction
    reading = transaction


_BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED; " + "; ".join(
    f"SET LOCAL {name} = '{value}'"
    for name, value in SETTINGS.items()
    if name not in ("application_name", "default_transaction_isolation")
)


class Address:
    """Where a database is: one host, or several of which one is the right one."""

    def __init__(self, dsn: str, timeout: float) -> None:
        self._hosts = single_hosts(dsn)
        self._timeout = timeout if len(self._hosts) == 1 else min(timeout, PER_HOST)
        self._latest = 0

    async def connect(self, **options: Any) -> asyncpg.Connection[Any]:
        """The first host that is as it should be; else what the last one said."""
        options["timeout"] = self._timeout
        count = len(self._hosts)
        for at in (turn % count for turn in range(self._latest, self._latest + count - 1)):
            with contextlib.suppress(
                OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError
            ):
                return await self._connect(at, options)
        return await self._connect((self._latest + count - 1) % count, options)

    async def _connect(self, at: int, options: dict[str, Any]) -> asyncpg.Connection[Any]:
        connection: asyncpg.Connection[Any] = await asyncpg.connect(self._hosts[at], **options)
        self._latest = at
        _notice_silence(connection)
        return connection


def single_hosts(dsn: str) -> list[str]:
    """The same address once for each host that it names."""
    parts = urlsplit(dsn)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    account, at, places = parts.netloc.rpartition("@")
    names, ports = query.pop("host", ""), query.pop("port", "")
    if not names and "," not in places:
        return [dsn]
    if names:
        hosts, numbers = names.split(","), ports.split(",")
        numbers = numbers * len(hosts) if len(numbers) == 1 else numbers
        pairs = list(zip(hosts, numbers, strict=True))
    else:
        pairs = [(place, "") for place in places.split(",")]
    if len(pairs) == 1:
        return [dsn]
    query.setdefault(_ATTRIBUTES, "read-write")
    found = []
    for host, port in pairs:
        if names:
            own, netloc = query | {"host": host} | ({"port": port} if port else {}), f"{account}{at}"
        else:
            own, netloc = query, f"{account}{at}{host}"
        found.append(urlunsplit(parts._replace(netloc=netloc, query=urlencode(own, quote_via=quote))))
    return found


def _notice_silence(connection: asyncpg.Connection[Any]) -> None:
    """A host that lost its power sends no farewell. Without this, whoever waits for its answer waits for the time-out
    of the statement, and so does the next one on the next connection."""
    transport = getattr(connection, "_transport", None)
    plug = None if transport is None else transport.get_extra_info("socket")
    if plug is None or plug.family not in (socket.AF_INET, socket.AF_INET6):
        return
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # What a platform does not know it does not do.
    for name, value in (
        ("TCP_KEEPIDLE", SILENCE - 2),
        ("TCP_KEEPINTVL", 1),
        ("TCP_KEEPCNT", 2),
        ("TCP_USER_TIMEOUT", SILENCE * 1_000),
    ):
        if hasattr(socket, name):
            plug.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
