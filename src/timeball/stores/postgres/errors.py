"""Translation of errors of PostgreSQL and of its connections to the errors of the store port."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Final

import asyncpg

from timeball.domain.errors import Unavailable

REPEATABLE: Final = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.UniqueViolationError,
    asyncpg.InvalidCachedStatementError,
)
"""Errors after which a transaction may be repeated: it conflicted with another one, or a change of the schema made a
prepared statement invalid."""
CONNECTION_LOST: Final = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # also raised for a connection that has ended without asyncpg noticing
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,  # this process hung inside a transaction
    asyncpg.TransactionTimeoutError,
)
"""Errors that mean that the connection is lost."""
NO_CONNECTION: Final = (OSError, EOFError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""Errors while connecting. For any of them the store counts as unavailable, and a later attempt may succeed."""
_OUT_OF_ORDER: Final = (
    TimeoutError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.CannotConnectNowError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.LockNotAvailableError,
    asyncpg.PostgresSystemError,
)


class Busy(Unavailable):
    """Raised when all connections of the pool are in use. The error says nothing about the state of the connections or
    of the database."""


class Locked(Unavailable):
    """Raised when a lock was not released within `lock_timeout`."""


class Interrupted(Unavailable):
    """Raised when the connection was lost during a transaction, which may have been committed, or before it began."""


@contextlib.asynccontextmanager
async def translated_errors(gone: type[Unavailable] = Unavailable) -> AsyncIterator[None]:
    """Raise errors of the database as errors of the store port. If the connection is lost, raise the error class
    `gone`."""
    try:
        yield
    except (*CONNECTION_LOST, *_OUT_OF_ORDER) as error:
        if isinstance(error, ValueError):  # asyncpg uses ValueError for an invalid argument
            raise
        if isinstance(error, asyncpg.LockNotAvailableError):
            raise no_answer(error, Locked) from error
        is_gone = isinstance(error, CONNECTION_LOST) and not isinstance(error, TimeoutError)
        raise no_answer(error, gone if is_gone else Unavailable) from error


def refused(error: Exception) -> Unavailable:
    """Return the error for a failed attempt to connect. A connection that ended while it was being made is
    `Interrupted`: the next attempt may succeed."""
    ended = (asyncpg.AdminShutdownError, asyncpg.ConnectionDoesNotExistError, asyncpg.InternalClientError)
    meanwhile = isinstance(error, ended) and not isinstance(error, asyncpg.TargetServerAttributeNotMatched)
    return no_answer(error, Interrupted if meanwhile else Unavailable)


def no_answer(error: Exception, kind: type[Unavailable] = Unavailable) -> Unavailable:
    return kind(f"PostgreSQL does not answer: {str(error) or type(error).__name__}")
