"""The interface between the store logic and a database.

A transaction is written once, as a coroutine function that awaits nothing but the methods of its `Tx`. On PostgreSQL
these methods suspend. On SQLite they never do, so its driver runs the same coroutine to its end in one thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from timeball.domain.audit_log.change import AuditedChange
from timeball.domain.instant import Micros
from timeball.ports.metrics import StoreMetrics, StoreUse
from timeball.ports.store.changes import ChangeBatch, ChangeListener
from timeball.ports.store.store import MessageListener, WakeupListener
from timeball.stores.sql.committed_changes import CommittedChanges
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.schema.table import Table

T = TypeVar("T")
TOO_LONG: Final = "reading this takes too long; ask for less at once, such as one job or a shorter time"
Row = Any
"""A row as the database returns it: a sequence of values in the order of the columns of the query. Callers unpack it,
or convert it to the row type of a table or a statement (see `schema`)."""


def scalar(rows: Sequence[Row]) -> Any:
    """Return the value of a statement with one column and at most one row; None if it returned no row."""
    ((value,),) = rows or ((None,),)
    return value


class Tx(Protocol):
    """A database transaction. A parameter that the query declares as a batch takes a list with one tuple per row, or
    with one value per row if the batch has a single column."""

    @property
    def may_be_done(self) -> bool:
        """True if the transaction may have been committed before, so that it must look for the rows it inserts. If it
        is False and the rows exist nevertheless, the transaction is run again."""
        ...

    @property
    def has_days(self) -> bool:
        """True if the history has one partition per day, so that reading some days is cheaper than reading all."""
        ...

    audited: list[AuditedChange] | None
    """What the transaction changes, for the audit log, as the module `audit_log.recording` adds it; None: no request
    asked for it."""

    @property
    def changes(self) -> list[ChangeBatch]:
        """What the transaction changes, as the module `changes` adds it. The driver uses it only after the commit."""
        ...

    @property
    def is_watched(self) -> bool:
        """True if a client of this server listens to events: then all changes are added to `changes`, else only
        ends."""
        ...

    async def fetch(self, query: Query, **parameters: Any) -> list[Row]: ...

    async def fetch_unlocked(self, query: Query, **parameters: Any) -> list[Row]:
        """Fetch rows without locks; they may change before the transaction ends. The driver may execute this before the
        transaction begins, so the rows must not include any that the transaction inserts."""
        ...

    async def execute(self, query: Query, **parameters: Any) -> int:
        """Execute a statement and return the number of rows written."""
        ...

    async def insert(self, table: Table, rows: Sequence[Row], **same: Any) -> None:
        """Insert tuples in the order of the table's columns. `same` are further columns with one value for all rows."""
        ...

    async def insert_missing(self, table: Table, rows: Sequence[Row]) -> None:
        """Insert tuples in the order of the table's columns, except those that exist already."""
        ...

    async def compute(self, work: Callable[[], T]) -> T:
        """Run a long computation that needs no database, such as parsing a large spec. Where transactions run in the
        thread of the event loop, the computation runs in another thread, so that the event loop is not blocked."""
        ...

    async def tokens(self, count: int) -> Sequence[int]:
        """Return new fencing tokens, greater than all that any server has received before."""
        ...


Work = Callable[[Tx], Awaitable[T]]


class Driver(Protocol):
    @property
    def committed(self) -> CommittedChanges:
        """The object that counts changes for the statistics and passes them on to the listener. The driver gives it the
        changes of each transaction after the commit."""
        ...

    @property
    def metrics(self) -> StoreMetrics: ...

    def use(self) -> StoreUse: ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def now(self) -> Micros: ...

    def require_space(self) -> None:
        """Raise `Unavailable` if the disk has so little space left that nothing new is accepted, as far as the driver
        can know: the space is for the ends of runs that were accepted before."""
        ...

    async def write(self, work: Work[T], *, once: bool = False) -> T:
        """Run a transaction, which is durable when this returns. `work` may run again if the database requires it,
        also when it is unknown whether the transaction was committed. With `once` it is not run again in that
        unknown case."""
        ...

    async def read(self, work: Work[T], *, slow: bool = False, may_lag: bool = False) -> T:
        """Run statements that only read. `slow` is for reads that users request and that may read many rows: they never
        delay other reads, and raise `Unavailable` if they take too long. `may_lag` is for reads on which no decision
        depends: a replica that is slightly behind may answer them."""
        ...

    def listen(self, hint: WakeupListener) -> None: ...

    def wake_all(self, topic: str) -> None: ...

    def watch_changes(self, listener: ChangeListener | None) -> None: ...

    def listen_to_servers(self, listener: MessageListener) -> None: ...

    def send_to_servers(self, message: str) -> None: ...
