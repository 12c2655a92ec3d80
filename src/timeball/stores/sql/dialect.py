"""One SQL text for both databases: placeholders, batches, and the few fragments in which they differ.

In the texts stand

    :name                                  a parameter
    {now}                                  the store's time, in microseconds, when the statement runs
    {state.ready}, {hold.turn}, ...        a value by its name, see `names`
    {batch b: id text, attempt bigint}     the parameter `b`, a list of tuples, as a table `b`
    {numbered b: id text}                  the parameter `b`, a list, as a table `b` with a column `nth`, from 0
    {in b: text}                           whether a value is one of those of the parameter `b`, a list
    {each runs r: b.id}                    join the row of `runs` with this id, as `r`, by looking it up: what a join
                                           would do depends on what the planner believes of a table that was empty a
                                           second ago
    {each_locked runs r: b.id}             the same, and keep it from other writers until the end; in the order of what
                                           it is joined to, which must be that of the ids
    {within h.id: b}                       whether it is between the first and the last value of the first column of the
                                           batch `b`: PostgreSQL then leaves other days of the history out of its plan,
                                           which otherwise takes longer to make than all the rest
    {each_within history h: b.id}          `{each}` with that
    {days r.id >= :made_from}              a condition that is true anyway, and tells PostgreSQL which days of the
                                           history it may leave out: see `day_ranges.py`
    {columns runs r}                       all columns of a table, in order: `r.id, r.job_id, ...`
    {shown history r}                      the same for a list: NULL in place of results, which no list shows
    {size j.spec}                          how long a text is, in bytes or characters, whichever costs less to ask
    {lock r}                               keep the rows found of `r` from other writers until the end; taken in the
                                           order of their ids, so that nobody waits in a circle
    {keep c}, {share c}                    the same, in an order that the statement says; `share`: only from who writes
    {skip_locked}, {skip_locked_of r}      keep them too, but pass over rows that others keep
    {among} (SELECT ... {among_end})       IN, for a subquery that names a column from outside: evaluated once per row
                                           of that, not once per pair
    {firsts history r} (SELECT {of_firsts} FROM history r ... ORDER BY ... LIMIT ...) {firsts_end}
                                           join the first rows of `history`, as `r`, of a subquery that names a column
                                           from outside
    {for_each_level} SELECT ... {level} ... {end_of_level}
                                           all that a SELECT finds for one priority after the other; PostgreSQL plans
                                           it once, SQLite finds it written down once for each
    {unindexed r.fire_time}                a column that no index is to be chosen for: SQLite, which has no statistics
                                           here, might prefer it to a better one
    {unindexed_text r.tenant}              the same for PostgreSQL, too: it knows little of a day that has just begun
    {fresh_token}                          a fencing token, or NULL where it costs nothing to ask for one later
    {same}, {greatest}, {id}, ...          words that are spelled differently, see `Dialect.fragments`
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from timeball.domain.dispatch.priority import LEVELS
from timeball.stores.sql.schema import TABLES

_LEVELS = re.compile(r"\{for_each_level\}(.*?)\{end_of_level\}", re.DOTALL)
_PIECE = re.compile(r"\{(\w+)(?: ([^{}]*))?\}|(?<![:\w]):([a-z_]+)")


@dataclass(frozen=True, eq=False, slots=True)
class Query:
    """A statement in the shared language, told apart by identity, so that compiling it can be remembered."""

    name: str
    text: str
    many: bool = False
    """A SELECT that may answer many rows while others are busy."""
    piecemeal: bool = False
    """The rows of its only batch have nothing to do with each other: it may be executed for some after the others."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A parameter that is a table: the names and types of its columns."""

    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Compiled:
    sql: str
    parameters: tuple[str, ...]
    """Names in the order of their positions; a batch takes one position per column where `columnar`."""
    batches: Mapping[str, Batch] = field(default_factory=dict)
    asks_time: bool = False
    """Whether there is a `{now}` in it."""


@dataclass(frozen=True, eq=False, slots=True)
class Dialect:
    """One of the two below, told apart by identity."""

    name: str
    fragments: Mapping[str, str]
    numbered: bool
    """Placeholders are `$1`, `$2`, and a batch is an array per column, as a text; else `:name`, and a batch is JSON."""

    def compile(self, text: str, rows: int = 0) -> Compiled:
        """Every connection asks for the same few hundred texts, so they are remembered for all of them. With a number
        of rows, for SQLite: their values come one by one, after all other parameters."""
        return _compiled(self, text, rows)

    def translate(self, text: str, rows: int) -> Compiled:
        parameters: list[str] = []
        batches: dict[str, Batch] = {}

        def place(name: str) -> str:
            if not self.numbered and not rows:
                return f":{name}"
            if name not in parameters:
                if rows and batches:
                    raise ValueError(f"the parameter {name!r} comes after the batch, whose values are to be the last")
                parameters.append(name)
            return f"{'$' if self.numbered else '?'}{parameters.index(name) + 1}"

        def batch(argument: str) -> str:
            name, _, described = argument.partition(":")
            columns = tuple((column, kind) for column, kind in (part.split(None, 1) for part in described.split(",")))
            batches[name] = Batch(columns)
            if self.numbered:
                arrays = ", ".join(f"{place(f'{name}.{column}')}::text::{kind}[]" for column, kind in columns)
                return f"unnest({arrays}) AS {name}({', '.join(column for column, _ in columns)})"
            if rows:  # without numbers, which SQLite would look up one by one
                values = ", ".join([f"({', '.join('?' * len(columns))})"] * rows)
                picked = ", ".join(f"column{at} AS {c}" for at, (c, _) in enumerate(columns, 1))
                return f"(SELECT {picked} FROM (VALUES {values})) AS {name}"
            if len(columns) == 1:
                ((column, _),) = columns
                return f"(SELECT value AS {column} FROM json_each(:{name})) AS {name}"
            picked = ", ".join(f"json_extract(value, '$[{at}]') AS {c}" for at, (c, _) in enumerate(columns))
            return f"(SELECT {picked} FROM json_each(:{name})) AS {name}"

        def numbered(argument: str) -> str:
            name, column, kind = re.split(r":? ", argument, maxsplit=2)
            batches[name] = Batch(((column, kind),))
            if self.numbered:
                array = f"{place(f'{name}.{column}')}::text::{kind}[]"
                return (
                    f"(SELECT {column}, nth - 1 AS nth FROM unnest({array}) WITH ORDINALITY AS listed({column}, nth)) "
                    f"AS {name}"
                )
            return f"(SELECT value AS {column}, key AS nth FROM json_each(:{name})) AS {name}"

        def one_of(argument: str) -> str:
            name, kind = argument.split(": ")
            batches[name] = Batch((("each", kind),))
            if self.numbered:
                return f"= ANY ({place(f'{name}.each')}::text::{kind}[])"
            return f"IN (SELECT value FROM json_each(:{name}))"

        def within(column: str, name: str) -> str:
            if self.numbered:
                return f"{column} BETWEEN {place(f'{name}.first')} AND {place(f'{name}.last')}"
            return "true"

        def piece(match: re.Match[str]) -> str:
            word, argument, parameter = match.groups()
            if parameter is not None:
                return place(parameter)
            if word == "batch":
                return batch(argument)
            if word == "numbered":
                return numbered(argument)
            if word == "in":
                return one_of(argument)
            if word == "within":
                return within(*argument.split(": "))
            if word == "days":
                return _PIECE.sub(piece, argument) if self.numbered else "true"
            if word == "each_within":
                named, key = argument.split(": ")
                table, alias = named.split()
                return self.fragments[word].format(table, alias, key, within(f"{table}.id", key.partition(".")[0]))
            if word in ("each", "each_locked"):
                named, key = argument.split(": ")
                return self.fragments[word].format(*named.split(), key)
            if word == "columns":
                table, alias = argument.split()
                return ", ".join(f"{alias}.{column}" for column in TABLES[table].columns)
            if word == "shown":
                table, alias = argument.split()
                return ", ".join("NULL" if each == "result" else f"{alias}.{each}" for each in TABLES[table].columns)
            fragment = self.fragments[word]
            return fragment.format(argument) if argument else fragment

        sql = _PIECE.sub(piece, _LEVELS.sub(self._for_each_level, text))
        return Compiled(sql, tuple(parameters), batches, asks_time="{now}" in text)

    def _for_each_level(self, match: re.Match[str]) -> str:
        body = match[1].strip()
        if self.numbered:
            levels = ", ".join(f"({level})" for level in LEVELS)
            lateral = body.replace("{level}", "level.number")
            return (
                f"SELECT of_level.* FROM (VALUES {levels}) AS level(number) CROSS JOIN LATERAL ({lateral}) AS of_level"
            )
        return " UNION ALL ".join(f"SELECT * FROM ({body.replace('{level}', str(level))})" for level in LEVELS)


@lru_cache(maxsize=2048)
def _compiled(dialect: Dialect, text: str, rows: int) -> Compiled:
    return dialect.translate(text, rows)


SQLITE = Dialect(
    name="sqlite",
    numbered=False,
    fragments={
        "now": ":now",
        "size": "length({0})",
        "lock": "",
        "keep": "",
        "share": "",
        "each": "JOIN {0} AS {1} ON {1}.id = {2}",
        "each_locked": "JOIN {0} AS {1} ON {1}.id = {2}",
        "each_within": "JOIN {0} AS {1} ON {1}.id = {2}",
        "skip_locked": "",
        "skip_locked_of": "",
        "among": "IN",
        "among_end": "",
        "firsts": "JOIN {0} ON r.id IN",
        "of_firsts": "r.id",
        "firsts_end": "",
        "unindexed": "+{0}",
        "unindexed_text": "+{0}",
        "same": "IS",
        "greatest": "max",
        "least": "min",
        "fresh_token": "NULL",
        "id": "TEXT",
        "bytes": "BLOB",
        "timeout_of": "json_extract({0}, '$.timeout')",
        "grace_of": "json_extract({0}, '$.grace')",
        "clustered": "WITHOUT ROWID",
        "daily": "WITHOUT ROWID",
    },
)

POSTGRES = Dialect(
    name="postgres",
    numbered=True,
    fragments={
        "size": "octet_length({0})",
        "now": "(SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)",
        "each": "CROSS JOIN LATERAL (SELECT * FROM {0} WHERE {0}.id = {2} OFFSET 0) AS {1}",
        "each_locked": "CROSS JOIN LATERAL (SELECT * FROM {0} WHERE {0}.id = {2} OFFSET 0 FOR UPDATE) AS {1}",
        "each_within": "CROSS JOIN LATERAL (SELECT * FROM {0} WHERE {0}.id = {2} AND {3} OFFSET 0) AS {1}",
        "keep": "FOR UPDATE OF {0}",
        "share": "FOR SHARE OF {0}",
        "lock": "ORDER BY {0}.id FOR UPDATE OF {0}",
        "skip_locked": "FOR UPDATE SKIP LOCKED",
        "skip_locked_of": "FOR UPDATE OF {0} SKIP LOCKED",
        "among": "= ANY (ARRAY",
        "among_end": ")",
        "firsts": "CROSS JOIN LATERAL",
        "of_firsts": "r.*",
        "firsts_end": "AS r",
        "unindexed": "{0}",
        "unindexed_text": "({0} || '')",
        "same": "IS NOT DISTINCT FROM",
        "greatest": "GREATEST",
        "least": "LEAST",
        "fresh_token": "nextval('tokens')",
        "id": 'TEXT COLLATE "C"',
        "bytes": "BYTEA",
        "timeout_of": "({0}::json ->> 'timeout')",
        "grace_of": "({0}::json ->> 'grace')",
        "clustered": "",
        "daily": "PARTITION BY RANGE ({0})",
    },
)
