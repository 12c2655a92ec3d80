"""A transaction on PostgreSQL with few round trips: a round trip costs both sides more than a row."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import asyncpg

from timeball.domain.audit_log.change import AuditedChange
from timeball.ports.store.changes import ChangeBatch
from timeball.stores.postgres.connect import SETTINGS, Connection, Own
from timeball.stores.sql.dialect import POSTGRES, Compiled, Query
from timeball.stores.sql.driver import Row
from timeball.stores.sql.schema.table import Table
from timeball.stores.sql.schema.tables import TABLES

T = TypeVar("T")
Insert: TypeAlias = tuple[Table, Sequence[Row], dict[str, Any]]
"""Rows for a table, and columns with one value for all rows."""
_Inserts: TypeAlias = tuple[tuple[Table, tuple[str, ...]], ...]

FEW: Final = 64
"""Maximum number of rows for which an INSERT is cheaper than COPY: COPY costs a third less per row, but two round
trips."""

MAX_STATEMENT_SIZE: Final = 1 << 20
"""Maximum size of the documents in the arguments of one insert, in characters or bytes, if it has more than one row:
asyncpg encodes the arguments of a statement without a turn of the event loop. 28 MiB took 180 ms."""


def _storable(value: Any) -> Any:
    """Replace NUL in texts: PostgreSQL would refuse the whole statement, with the rows of other requests in it."""
    return value.replace("\x00", "\ufffd") if isinstance(value, str) and "\x00" in value else value


def array(values: Sequence[Any], kind: str) -> str:
    """Return an array in the text format of PostgreSQL. asyncpg would check for each element whether it is an array
    itself, which takes longer than the rest (0.5 µs per id instead of 0.1)."""
    if kind == "bigint":
        numbers = ",".join(map(str, values))
        return "{" + (numbers.replace("None", "NULL") if None in values else numbers) + "}"
    if kind == "text" and None not in values:
        texts = '","'.join(values)
        if "\\" not in texts and "\x00" not in texts and texts.count('"') == 2 * (len(values) - 1):
            return '{"' + texts + '"}'
    return "{" + ",".join(map(_element, values)) + "}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    return '"' + str(_storable(value)).replace("\\", "\\\\").replace('"', '\\"') + '"'


def pieces(table: Table, rows: Sequence[Row]) -> list[Sequence[Row]]:
    """Divide rows so that the documents of each piece fit into the arguments of one statement. A piece has at least one
    row, whatever its size."""
    if (at := table.document) is None or sum([len(row[at] or "") for row in rows]) <= MAX_STATEMENT_SIZE:
        return [rows]
    found: list[list[Row]] = []
    size = MAX_STATEMENT_SIZE
    for row in rows:
        added = len(row[at] or "")
        size += added
        if size > MAX_STATEMENT_SIZE:
            found.append([])
            size = added
        found[-1].append(row)
    return [*found]


class Compiler:
    """A cache of the SQL text of each query and insert in the dialect of PostgreSQL."""

    def __init__(self) -> None:
        self._queries: dict[Query, Compiled] = {}
        self._inserts: dict[tuple[bool, _Inserts], str] = {}
        self._inserts_of_missing: dict[Table, str] = {}

    def arguments(self, query: Query, parameters: dict[str, Any]) -> tuple[str, list[Any]]:
        compiled = self._queries.get(query)
        if compiled is None:
            compiled = self._queries[query] = POSTGRES.compile(query.text)
        values = {name: _storable(value) for name, value in parameters.items()}
        for name, batch in compiled.batches.items():
            rows = parameters[name]
            if len(batch.columns) == 1:
                columns: Iterable[Sequence[Any]] = [rows]
            else:
                columns = zip(*rows, strict=True) if rows else [()] * len(batch.columns)
            for (column, kind), column_values in zip(batch.columns, columns, strict=True):
                values[f"{name}.{column}"] = array(column_values, kind)
            if f"{name}.first" in compiled.parameters:
                keys = [_storable(key) for key in (rows if len(batch.columns) == 1 else [row[0] for row in rows])]
                values[f"{name}.first"], values[f"{name}.last"] = min(keys, default=""), max(keys, default="")
        return compiled.sql, [values[name] for name in compiled.parameters]

    def inserts(self, waiting: Sequence[Insert]) -> tuple[str, list[Any]]:
        """Return one SQL statement that executes all collected inserts, and its arguments."""
        which = tuple((table, tuple(same)) for table, _, same in waiting)
        alone = all(len(rows) == 1 for _, rows, _ in waiting)
        sql = self._inserts.get((alone, which))
        if sql is None:
            sql = self._inserts[alone, which] = _statement(which, alone)
        arguments: list[Any] = []
        for table, rows, same in waiting:
            if alone:
                arguments += map(_storable, rows[0])
            else:
                columns = zip(*rows, strict=True)
                arguments += [array(column, kind) for column, kind in zip(columns, table.kinds, strict=True)]
            arguments += same.values()
        return sql, arguments

    def insert_missing(self, table: Table) -> str:
        sql = self._inserts_of_missing.get(table)
        if sql is None:
            columns = ", ".join(table.columns)
            arrays = ", ".join(f"${at}::{kind}[]" for at, kind in enumerate(table.kinds, 1))
            sql = f"INSERT INTO {table.name} ({columns}) SELECT * FROM unnest({arrays}) ON CONFLICT DO NOTHING"
            self._inserts_of_missing[table] = sql
        return sql


def _statement(inserts: _Inserts, alone: bool) -> str:
    """Return the SQL for these inserts. With `alone` each insert has one row, and its values are plain parameters
    instead of arrays: that takes the server half as long."""
    statements, places = [], itertools.count(1)
    for table, same in inserts:
        kinds = dict(zip(TABLES[table.name].columns, TABLES[table.name].kinds, strict=True))
        if alone:
            values = ", ".join(f"${next(places)}::{kinds[name]}" for name in (*table.columns, *same))
            source = f"VALUES ({values})"
        else:
            arrays = ", ".join(f"${next(places)}::text::{kind}[]" for kind in table.kinds)
            shared = "".join(f", ${next(places)}::{kinds[name]}" for name in same)
            source = f"SELECT b.*{shared} FROM unnest({arrays}) AS b"
        columns = ", ".join([*table.columns, *same])
        statements.append(f"INSERT INTO {table.name} ({columns}) {source}")
    *others, last = statements
    named = ", ".join(f"insert_{at} AS ({statement})" for at, statement in enumerate(others))
    return f"WITH {named} {last}" if others else last


class Tx:
    """A connection inside a transaction, or one that only reads."""

    has_days = True
    may_be_done = True
    is_watched = False

    def __init__(self, connection: Connection, compiler: Compiler, timeout: float | None = None) -> None:
        self._connection = connection
        self._compiler = compiler
        self._timeout = timeout
        self.changes: list[ChangeBatch] = []
        self.audited: list[AuditedChange] | None = None

    async def fetch(self, query: Query, **parameters: Any) -> list[Row]:
        sql, arguments = self._compiler.arguments(query, parameters)
        return list(await self._connection.fetch(sql, *arguments, timeout=self._timeout))

    async def fetch_unlocked(self, query: Query, **parameters: Any) -> list[Row]:
        return await Tx.fetch(self, query, **parameters)

    async def execute(self, query: Query, **parameters: Any) -> int:
        sql, arguments = self._compiler.arguments(query, parameters)
        tag = await self._connection.execute(sql, *arguments)
        _, _, count = tag.rpartition(" ")  # such as "INSERT 0 500"
        return int(count) if count.isdigit() else 0

    async def insert(self, table: Table, rows: Sequence[Row], **same: Any) -> None:
        if same:
            shared = tuple(same.values())
            rows = [row + shared for row in rows]
        await self._connection.copy_records_to_table(table.name, records=rows, columns=(*table.columns, *same))

    async def insert_missing(self, table: Table, rows: Sequence[Row]) -> None:
        for some in pieces(table, rows):
            columns = [list(column) for column in zip(*some, strict=True)]
            await self._connection.execute(self._compiler.insert_missing(table), *columns)

    async def compute(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)

    async def tokens(self, count: int) -> Sequence[int]:
        tokens: list[str] = await self._connection.fetchval(_TAKE_TOKENS, count)
        return list(map(int, tokens))


class WritingTx(Tx):
    """A transaction that sends no BEGIN if all that it writes are inserts of a few rows.

    Inserts of at most `FEW` rows are collected until another statement is needed, and are then sent together as one
    statement. If no other statement is needed, that statement is the whole transaction, without BEGIN and COMMIT unless
    there is a pooler: a small batch of submitted jobs takes one round trip. If its runs are also assigned to idle
    workers, it takes four round trips, or three if the batch is a single job.
    """

    def __init__(
        self,
        connection: Connection,
        compiler: Compiler,
        connections: Own,
        stack: contextlib.AsyncExitStack,
        may_be_done: bool,
    ) -> None:
        super().__init__(connection, compiler)
        self.may_be_done = may_be_done
        self._connections = connections
        self._stack = stack
        self._has_begun = False
        self._keeps_plans = False
        """True if PostgreSQL keeps the plans of the statements from here on."""
        self._waiting: list[Insert] = []

    async def begin(self, query: Query | None = None) -> None:
        """Begin the transaction, if it has not begun, with the plan cache mode that `query` needs: generic plans if it
        is `planned_once`, else the default."""
        keeps_plans = query is not None and query.planned_once and self._connections.stay
        if not self._has_begun:
            begin = _keeping_plans if keeps_plans else self._connections.transaction
            await self._stack.enter_async_context(begin(self._connection))
            self._has_begun, self._keeps_plans = True, keeps_plans
        elif self._keeps_plans and not keeps_plans:
            await self._connection.execute(f"SET LOCAL plan_cache_mode = {SETTINGS['plan_cache_mode']}")
            self._keeps_plans = False

    async def finish(self) -> None:
        """Send the waiting inserts. COMMIT follows if there was a BEGIN."""
        if self._waiting and not self._has_begun:
            await self._stack.enter_async_context(self._connections.alone(self._connection))
        await self._insert_waiting()

    async def fetch(self, query: Query, **parameters: Any) -> list[Row]:
        await self._catch_up(query)
        return await super().fetch(query, **parameters)

    async def execute(self, query: Query, **parameters: Any) -> int:
        await self._catch_up(query)
        return await super().execute(query, **parameters)

    async def insert(self, table: Table, rows: Sequence[Row], **same: Any) -> None:
        is_small = len(rows) < 2 or (len(rows) <= FEW and len(pieces(table, rows)) == 1)
        if is_small and "bytea" not in table.kinds:
            if rows:
                self._waiting.append((table, list(rows), same))
            return
        await self._catch_up()
        await super().insert(table, rows, **same)

    async def insert_missing(self, table: Table, rows: Sequence[Row]) -> None:
        await self._catch_up()
        await super().insert_missing(table, rows)

    async def fetch_unlocked(self, query: Query, **parameters: Any) -> list[Row]:
        await self._stay()
        return await super().fetch_unlocked(query, **parameters)

    async def tokens(self, count: int) -> Sequence[int]:
        await self._stay()  # new tokens do not depend on the collected inserts
        return await super().tokens(count)

    async def _stay(self) -> None:
        """Prepare for a statement that need not be part of the transaction: with a pooler, begin the transaction
        anyway, so that the statement runs on the same connection."""
        if self._keeps_plans or not self._connections.stay:
            await self.begin()

    async def _catch_up(self, query: Query | None = None) -> None:
        await self.begin(None if self._waiting else query)
        await self._insert_waiting()

    async def _insert_waiting(self) -> None:
        if self._waiting:
            sql, arguments = self._compiler.inserts(self._waiting)
            self._waiting = []
            await self._connection.execute(sql, *arguments)


@contextlib.asynccontextmanager
async def writing(
    connection: Connection, compiler: Compiler, connections: Own, *, may_be_done: bool
) -> AsyncIterator[WritingTx]:
    """Yield a transaction that is committed at the end of the block, and rolled back on an error."""
    async with contextlib.AsyncExitStack() as stack:
        tx = WritingTx(connection, compiler, connections, stack, may_be_done)
        yield tx
        await tx.finish()


@contextlib.asynccontextmanager
async def _keeping_plans(connection: Connection) -> AsyncIterator[None]:
    """Run the block in a transaction whose statements PostgreSQL plans once per connection. That setting is sent
    together with BEGIN, so that it costs no round trip.
    """
    await connection.execute("BEGIN; SET LOCAL plan_cache_mode = force_generic_plan")
    try:
        yield
    except BaseException:
        with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):  # the connection is lost
            await connection.execute("ROLLBACK")
        raise
    await connection.execute("COMMIT")


_TAKE_TOKENS: Final = "SELECT array_agg(nextval('tokens')::text) FROM generate_series(1, $1::bigint)"
"""The tokens are an array of texts: for arrays of other types each new connection asks the server for the type first,
which costs the server 8 ms."""
