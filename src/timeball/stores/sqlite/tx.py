"""The statements of a transaction on SQLite."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Coroutine, Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain
from typing import Any, Final, TypeVar, cast

import msgspec

from timeball.domain.audit_log.change import AuditedChange
from timeball.ports.store.changes import ChangeBatch
from timeball.stores.sql.dialect import SQLITE, Compiled, Query
from timeball.stores.sql.driver import Row, Work
from timeball.stores.sql.maintenance.clock import move_timers
from timeball.stores.sql.schema.table import Table
from timeball.stores.sqlite.clock import MARK_TIME, SteadyClock

T = TypeVar("T")

ROWS_TOGETHER: Final = (1_000, 500, 50, 40, 32, 24, 16, 8)
"""Numbers of rows that one statement inserts. The largest that fits is used first. Each step of a statement releases
the lock of the interpreter and waits to get it back, so several rows per statement are faster. The remaining rows are
sent as JSON, which costs a third more per row."""
MAX_VALUES: Final = 30_000
"""Maximum number of values in one statement; the limit of SQLite is 32,766."""
_TAKE_TOKENS: Final = "UPDATE meta SET value = value + ? WHERE name = 'token' RETURNING value"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[tuple[Any, ...]]).decode
_widths: Final[dict[str, int]] = {}
"""The number of columns of each statement, cached for all connections because it is expensive to find out."""


class _Zeros(dict[str, int]):
    """Parameters with the value 0 for every name, to execute a statement only to find out its columns."""

    def __missing__(self, name: str) -> int:
        return 0


class Tx:
    """A connection inside a transaction. Its methods never suspend."""

    has_days = False
    may_be_done = False

    def __init__(self, connection: sqlite3.Connection, clock: SteadyClock) -> None:
        self._connection = connection
        self._clock = clock
        self._compiled: dict[tuple[Query, bool], Compiled] = {}
        self._inserts: dict[tuple[str, Table, tuple[str, ...], int], str] = {}
        self.changes: list[ChangeBatch] = []
        self.audited: list[AuditedChange] | None = None
        self.is_watched = False

    def careful(self) -> Tx:
        """Return a `Tx` for the second try of a transaction that may already be committed. Because of `may_be_done`,
        the transaction looks for the rows that exist before it inserts."""
        twin = copy(self)
        twin.may_be_done = True
        self.changes.clear()
        return twin

    async def fetch(self, query: Query, **parameters: Any) -> list[Row]:
        if query.many:
            with contextlib.suppress(sqlite3.DataError):  # the result is too large for one value
                (piece,) = self._run(query, dict(parameters), whole=True).fetchone()
                return cast("list[Row]", _decode(piece))
        return self._run(query, parameters).fetchall()

    fetch_unlocked = fetch

    async def execute(self, query: Query, **parameters: Any) -> int:
        if not query.piecemeal:
            return self._run(query, parameters).rowcount
        ((batch, rows),) = ((name, parameters.pop(name)) for name in SQLITE.compile(query.text).batches)
        written = 0
        for size, piece in _together(rows):
            if size:
                compiled = SQLITE.compile(query.text, size)
                values = [*(parameters[name] for name in compiled.parameters), *chain.from_iterable(piece)]
                written += self._connection.execute(compiled.sql, values).rowcount
            else:
                written += self._run(query, {**parameters, batch: piece}).rowcount
        return written

    async def insert(self, table: Table, rows: Sequence[Row], **same: Any) -> None:
        self._insert("INSERT", table, rows, same)

    async def insert_missing(self, table: Table, rows: Sequence[Row]) -> None:
        self._insert("INSERT OR IGNORE", table, rows, {})

    def _insert(self, verb: str, table: Table, rows: Sequence[Row], same: dict[str, Any]) -> None:
        names, shared = tuple(same), tuple(same.values())
        for size, piece in _together(rows):
            if not size and (len(piece) == 1 or "bytea" in table.kinds):
                one = self._insert_sql(verb, table, names, 1)
                self._connection.executemany(one, [(*shared, *row) for row in piece])
            else:
                values = chain.from_iterable(piece) if size else [_encode(piece).decode()]
                self._connection.execute(self._insert_sql(verb, table, names, size), [*shared, *values])

    def _insert_sql(self, verb: str, table: Table, same: tuple[str, ...], count: int) -> str:
        """Return the SQL for `count` rows; for 0, for all rows in a JSON array. Values that all rows share come first,
        once."""
        sql = self._inserts.get((verb, table, same, count))
        if sql is None:
            shared = [f"?{at}" for at in range(1, len(same) + 1)]
            if count:
                row = ", ".join([*shared, *("?" for _ in table.columns)])
                source = f"VALUES {', '.join([f'({row})'] * count)}"
            else:
                row = ", ".join([*shared, *(f"json_extract(value, '$[{at}]')" for at in range(len(table.columns)))])
                source = f"SELECT {row} FROM json_each(?)"
            sql = f"{verb} INTO {table.name} ({', '.join([*same, *table.columns])}) {source}"
            self._inserts[verb, table, same, count] = sql
        return sql

    async def compute(self, work: Callable[[], T]) -> T:
        return work()

    async def tokens(self, count: int) -> Sequence[int]:
        (last,) = self._connection.execute(_TAKE_TOKENS, (count,)).fetchone()
        return range(last - count + 1, last + 1)

    def _compile(self, query: Query, whole: bool) -> Compiled:
        """Compile a query. With `whole`, all rows are returned as one JSON value: each fetched row releases the lock of
        the interpreter and waits to get it back."""
        compiled = SQLITE.compile(query.text)
        if not whole:
            return compiled
        select = compiled.sql.rstrip(";")
        width = _widths.get(select)
        if width is None:
            found = self._connection.execute(f"SELECT * FROM ({select}) LIMIT 0", _Zeros())
            width = _widths[select] = len(found.description)
        names = ", ".join(f"c{at}" for at in range(width))
        sql = f"WITH found({names}) AS ({select}) SELECT json_group_array(json_array({names})) FROM found"
        return replace(compiled, sql=sql)

    def _run(self, query: Query, parameters: dict[str, Any], *, whole: bool = False) -> sqlite3.Cursor:
        compiled = self._compiled.get((query, whole))
        if compiled is None:
            compiled = self._compiled[query, whole] = self._compile(query, whole)
        for name in compiled.batches:
            parameters[name] = _encode(parameters[name]).decode()
        if compiled.asks_time:
            parameters["now"] = self._clock()
        return self._connection.execute(compiled.sql, parameters)


def _together(rows: Sequence[Row]) -> Iterator[tuple[int, Sequence[Row]]]:
    """Yield the size and the rows of each part. The sizes are numbers of `ROWS_TOGETHER`; the remaining rows come last,
    with the size 0."""
    done, limit = 0, MAX_VALUES // len(rows[0]) if rows else 0
    for size in ROWS_TOGETHER:
        while limit >= size <= len(rows) - done:
            yield size, rows[done : done + size]
            done += size
    if done < len(rows):
        yield 0, rows[done:]


def run(work: Work[T], tx: Tx) -> T:
    """Run the coroutine of a transaction to its end. The methods of `Tx` on SQLite never suspend, so one step is
    enough."""
    coroutine = cast("Coroutine[Any, Any, T]", work(tx))
    try:
        coroutine.send(None)
    except StopIteration as finished:
        return cast("T", finished.value)
    coroutine.close()
    raise RuntimeError("a store transaction awaited something other than its Tx")


def run_or_repeat(work: Work[T], tx: Tx, undo: Callable[[], object]) -> T:
    """Run a transaction. If it inserts an id that exists, call `undo` and run it again as a transaction that looks for
    existing rows first: the same request may have been committed before."""
    try:
        return run(work, tx)
    except sqlite3.IntegrityError:
        undo()
        return run(work, tx.careful())


def begin_again(connection: sqlite3.Connection) -> None:
    connection.execute("ROLLBACK")
    connection.execute("BEGIN IMMEDIATE")


def absorb(connection: sqlite3.Connection, tx: Tx, clock: SteadyClock) -> None:
    """Move leases and timers by the step of the wall clock that the clock of the store has not followed yet, in a
    transaction of its own; then move the clock. Do nothing if there is no such step. The caller has no open
    transaction."""
    now, step = clock.pending()
    if not step:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        run(lambda tx: move_timers(tx, step), tx)
        connection.execute(MARK_TIME, (now + step,))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    clock.jump(step)


def transact(connection: sqlite3.Connection, work: Work[T], tx: Tx, mark: SteadyClock | None = None) -> T:
    if mark is not None and mark.absorbable:
        absorb(connection, tx, mark)
    connection.execute("BEGIN IMMEDIATE")
    try:
        answer = run_or_repeat(work, tx, lambda: begin_again(connection))
        if mark is not None:
            connection.execute(MARK_TIME, (mark(),))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return answer
