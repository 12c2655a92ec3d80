"""What can go wrong with PostgreSQL and the way to it, in the words of the port."""

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
"""A work was refused because of its neighbours, and may be run again."""
GONE: Final = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # also what asyncpg says of a connection whose end it has not noticed yet
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,  # this process stood still inside a transaction
    asyncpg.TransactionTimeoutError,
)
"""The connection is."""
NO_CONNECTION: Final = (OSError, EOFError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""Whatever the reason: a store that lets nobody in is out of order, and may let us in again."""
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
    """Every connection is at work: there is nothing wrong with any of them, nor with what was asked."""


class Locked(Unavailable):
    """A lock did not come free within `lock_timeout`."""


class Interrupted(Unavailable):
    """The connection broke while a work was under way, which may have been committed, or about to begin."""


@contextlib.asynccontextmanager
async def told(gone: type[Unavailable] = Unavailable) -> AsyncIterator[None]:
    """Tell what went wrong with the server in the words of the port; `gone`: with the connection to it."""
    try:
        yield
    except (*GONE, *_OUT_OF_ORDER) as error:
        if isinstance(error, ValueError):  # asyncpg's word for an argument that is no such value
            raise
        if isinstance(error, asyncpg.LockNotAvailableError):
            raise no_answer(error, Locked) from error
        is_gone = isinstance(error, GONE) and not isinstance(error, TimeoutError)
        raise no_answer(error, gone if is_gone else Unavailable) from error


def refused(error: Exception) -> Unavailable:
    """What to tell who got no connection. One that was ended while it was being made says nothing about the next."""
    ended = (asyncpg.AdminShutdownError, asyncpg.ConnectionDoesNotExistError, asyncpg.InternalClientError)
    meanwhile = isinstance(error, ended) and not isinstance(error, asyncpg.TargetServerAttributeNotMatched)
    return no_answer(error, Interrupted if meanwhile else Unavailable)


def no_answer(error: Exception, kind: type[Unavailable] = Unavailable) -> Unavailable:
    return kind(f"PostgreSQL does not answer: {str(error) or type(error).__name__}")
