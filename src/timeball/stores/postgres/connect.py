"""Connections to PostgreSQL: to the host that accepts writes, with the settings that every statement needs, and with
keepalives that detect a dead host within seconds.

An address may name several hosts, as for libpq: `postgresql://a,b:5433/timeball?target_session_attrs=read-write`. Each
host gets a few seconds of its own, because a host without power does not refuse a connection. The host that answered
last is tried first. The default of `target_session_attrs` for several hosts is `read-write`.
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
"""Seconds to connect to one of several hosts."""
SILENCE_TIMEOUT: Final = 5
"""Seconds without a packet from the other side, idle or after a send, until a connection counts as broken."""
SETTINGS: Final = {
    "application_name": "timeball",
    "synchronous_commit": "on",
    "default_transaction_isolation": "read committed",
    # If a Timeball server hangs in a transaction, PostgreSQL releases the locks before worker leases (15 s) lapse.
    "idle_in_transaction_session_timeout": "10s",
    "jit": "off",
    "timezone": "UTC",
    # Every statement has its index. A cached plan from when a table was small reads the whole table: claims among
    # 300,000 runs that arrived before the next ANALYZE took 118 ms with cached plans, and 13 ms with these two
    # settings. Statements for which that cannot happen are marked (`planned_once`).
    "plan_cache_mode": "force_custom_plan",
    "enable_seqscan": "off",
}
_ATTRIBUTES: Final = "target_session_attrs"


@dataclass(frozen=True, slots=True)
class Own:
    """Connections directly to the database. Settings and prepared statements stay valid as long as the connection."""

    least: int
    limit: int
    statement_cache_size: ClassVar[int] = 1024
    settings: ClassVar[dict[str, str]] = SETTINGS
    stay: ClassVar[bool] = True
    """True if consecutive statements outside of a transaction run on the same connection to the database."""

    def transaction(self, connection: Connection) -> AbstractAsyncContextManager[object]:
        return connection.transaction()

    def alone(self, connection: Connection) -> AbstractAsyncContextManager[object]:
        """Return the context for a single statement, which is a transaction by itself."""
        return contextlib.nullcontext()

    def reading(self, connection: Connection) -> AbstractAsyncContextManager[object]:
        """Return the context for reads. They need no transaction: each statement sees what was committed before it."""
        return contextlib.nullcontext()


class Pooled(Own):
    """Connections through a pooler, such as PgBouncer, that may run each transaction on another connection to the
    database. No state is kept between transactions: settings are sent with each transaction, and statements are not
    cached. A statement is prepared and executed in two steps, and only a transaction keeps both on one connection; so
    reads run in a transaction too."""

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
    """The address of a database: one host, or several of which one accepts writes."""

    def __init__(self, dsn: str, timeout: float) -> None:
        self._hosts = single_hosts(dsn)
        self._timeout = timeout if len(self._hosts) == 1 else min(timeout, PER_HOST)
        self._latest = 0

    async def connect(self, **options: Any) -> asyncpg.Connection[Any]:
        """Return a connection to the first host that qualifies. Raise the error of the last one if none does."""
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
    """Return one address for each host that a DSN names."""
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
    """Enable TCP keepalives. A host that lost its power closes no connection; without keepalives every statement on
    each of its connections would wait until the statement timeout."""
    transport = getattr(connection, "_transport", None)
    plug = None if transport is None else transport.get_extra_info("socket")
    if plug is None or plug.family not in (socket.AF_INET, socket.AF_INET6):
        return
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Options that the platform does not have are left out.
    for name, value in (
        ("TCP_KEEPIDLE", SILENCE_TIMEOUT - 2),
        ("TCP_KEEPINTVL", 1),
        ("TCP_KEEPCNT", 2),
        ("TCP_USER_TIMEOUT", SILENCE_TIMEOUT * 1_000),
    ):
        if hasattr(socket, name):
            plug.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
