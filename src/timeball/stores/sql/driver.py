"""What the store logic needs of a database.

A transaction is written once, as a coroutine function that awaits nothing but the methods of its `Tx`. PostgreSQL
really suspends in them; SQLite never does, so its driver runs the same coroutine to its end inside one thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from timeball.domain.instant import Micros
from timeball.ports.store.store import WakeupListener
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.schema import Table

T = TypeVar("T")
TOO_LONG: Final = "reading this takes too long; ask for less at once, such as one job or a shorter time"
Row = Any
"""A row as the database hands it out: a sequence of values, in the order of the query's columns. It is read by names:
unpacked, or as the row type of a table or a statement (see `schema`)."""


def scalar(rows: Sequence[Row]) -> Any:
    """The value of a statement that answers one column of at most one row; None: it answered none."""
    ((value,),) = rows or ((None,),)
    return value


class Tx(Protocol):
    """A transaction. A parameter that the query declares as a batch takes one tuple per row."""

    @property
    def may_be_done(self) -> bool:
        """Whether a work that inserts rows with ids of its own has to look for them first, since it may have been
        committed before. If not, and it was after all, it is run again."""
        ...

    @property
    def has_days(self) -> bool:
        """Whether the days of the history are apart, so that it costs less to look at some than at all."""
        ...

    async def fetch(self, query: Query, **parameters: Any) -> list[Row]: ...

    async def fetch_unlocked(self, query: Query, **parameters: Any) -> list[Row]:
        """The same for rows that are only looked at and may have changed by the end of the transaction: it need not
        have begun for that. What it inserts may not be among them."""
        ...

    async def execute(self, query: Query, **parameters: Any) -> int:
        """How many rows were written."""
        ...

    async def insert(self, table: Table, rows: Sequence[Row], **same: Any) -> None:
        """Insert tuples in the order of the table's columns, with other columns that are the same in all rows."""
        ...

    async def insert_missing(self, table: Table, rows: Sequence[Row]) -> None:
        """Insert tuples in the order of the table's columns, but for those that are there already."""
        ...

    async def compute(self, work: Callable[[], T]) -> T:
        """Work that takes long and needs no database, such as reading a large spec. Where the event loop's thread runs
        transactions, another thread does it: Python takes turns between the two every few milliseconds."""
        ...

    async def tokens(self, count: int) -> Sequence[int]:
        """Fresh fencing tokens: greater than all before, whoever asks."""
        ...


Work = Callable[[Tx], Awaitable[T]]


class Driver(Protocol):
    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def now(self) -> Micros: ...

    async def write(self, work: Work[T], *, once: bool = False) -> T:
        """Run a transaction; durable when this returns. May run `work` again if the database asks for it, also when
        nobody knows whether it was committed; that not if it counts `once`."""
        ...

    async def read(self, work: Work[T], *, slow: bool = False, may_lag: bool = False) -> T:
        """Run statements that only read. A slow read is one that people ask for and that may look at much: it never
        holds up the others, and is `Unavailable` if it takes too long. One that `may_lag` is only looked at: nothing
        is decided by it, and a replica that is a little behind may answer it."""
        ...

    def listen(self, hint: WakeupListener) -> None: ...

    def wake_all(self, topic: str) -> None: ...
