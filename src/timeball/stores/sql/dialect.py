"""One SQL text for both databases: placeholders, batches, and the few fragments in which they differ.

The texts contain

    :name                                  a parameter
    {now}                                  the time of the store, in microseconds, when the statement runs
    {state.ready}, {hold.turn}, ...        a value by its name, see `names`
    {batch b: id text, attempt bigint}     the parameter `b`, a list of tuples, as a table `b`; with a single column, a
                                           list of values
    {numbered b: id text}                  the parameter `b`, a list, as a table `b` with a column `nth`, from 0
    {in b: text}                           true if a value is in the parameter `b`, a list
    {each runs r: b.id}                    join the row of `runs` with this id, as `r`, by an index lookup; the plan of
                                           an ordinary join depends on statistics, which are wrong for a table that was
                                           empty a second ago
    {each_locked runs r: b.id}             the same with a row lock until the end of the transaction; rows are locked in
                                           the order of the joined table, which must be sorted by id
    {each_attempt a: h.id}                 join the rows of `attempts` of this run, as `a`, by an index lookup
    {within h.id: b}                       true if the value is between the first and the last value of the first column
                                           of the batch `b`: PostgreSQL then leaves other days of the history out of the
                                           plan, which otherwise takes longer to make than the statement to execute
    {each_within history h: b.id}          `{each}` with `{within}`
    {days r.id >= :made_from}              a condition that is always true and lets PostgreSQL leave days of the history
                                           out of the plan, see `day_ranges.py`
    {columns runs r}                       all columns of a table, in order: `r.id, r.job_id, ...`
    {shown history r}                      the same for a list: NULL in place of results, which no list shows
    {text_of j.spec: task.kind}            the text at a path of a column with JSON, or NULL
    {octets l.text}                        the length of a text in bytes
    {bytewise j.user_id}                   a text that is compared byte by byte, like an id
    {size j.spec}                          the length of a text, in bytes or characters, whichever is cheaper
    {lock r}                               lock the rows of `r` until the end of the transaction, in the order of their
                                           ids, which avoids deadlocks
    {keep c}, {share c}                    the same in the order of the statement; `share` locks out only writers
    {skip_locked}, {skip_locked_of r}      lock rows, but skip those that other transactions have locked
    {among} (SELECT ... {among_end})       IN, for a subquery that uses a column from outside: evaluated once per outer
                                           row, not once per pair
    {firsts history r} (SELECT {of_firsts} FROM history r ... ORDER BY ... LIMIT ...) {firsts_end}
                                           join the first rows of `history`, as `r`, of a subquery that uses a column
                                           from outside
    {fires_of history r} ... {fires_end}   join the rows of `history`, as `r`, that meet a condition which uses a column
                                           from outside, by an index; only `r.fire_time` may be used of them
    {for_each_level} SELECT ... {level} ... {end_of_level}
                                           the union of a SELECT over all priorities; PostgreSQL plans the SELECT once,
                                           for SQLite it is repeated for each priority
    {unindexed r.fire_time}                a column whose indexes are not used: SQLite, which has no statistics here,
                                           might prefer them to a better one
    {unindexed_text r.tenant}              the same for both databases: PostgreSQL has no statistics of a new day
    {fresh_token}                          a fencing token, or NULL where asking for one later costs no round trip
    {same}, {greatest}, {id}, ...          words that differ, see `Dialect.fragments`
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from timeball.domain.dispatch.priority import LEVELS
from timeball.stores.sql.schema.tables import TABLES

_LEVELS = re.compile(r"\{for_each_level\}(.*?)\{end_of_level\}", re.DOTALL)
_PIECE = re.compile(r"\{(\w+)(?: ([^{}]*))?\}|(?<![:\w]):([a-z_]+)")


@dataclass(frozen=True, eq=False, slots=True)
class Query:
    """A statement in the shared language. Queries are compared by identity, so that the compiled form can be cached."""

    name: str
    text: str
    many: bool = False
    """True for a SELECT that may return many rows while other requests wait."""
    piecemeal: bool = False
    """True if the rows of its only batch are independent: the statement may be executed for parts of the batch."""
    planned_once: bool = False
    """True if each connection to PostgreSQL plans the statement only once. Its best plan must be the same for all
    values and all sizes of its tables."""


@dataclass(frozen=True, slots=True)
class TableParameter:
    """A parameter that is a table: the names and types of its columns."""

    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Compiled:
    sql: str
    parameters: tuple[str, ...]
    """Parameter names in the order of their positions. Where `numbered`, a batch has one position per column."""
    batches: Mapping[str, TableParameter] = field(default_factory=dict)
    asks_time: bool = False
    """True if the statement contains `{now}`."""


@dataclass(frozen=True, eq=False, slots=True)
class Dialect:
    """The SQL dialect of one database: `SQLITE` or `POSTGRES`. Dialects are compared by identity."""

    name: str
    fragments: Mapping[str, str]
    numbered: bool
    """True: placeholders are `$1`, `$2`, and a batch is one array per column, as text. False: placeholders are `:name`,
    and a batch is JSON."""

    def compile(self, text: str, rows: int = 0) -> Compiled:
        """Return the SQL text for this database, from a cache that all connections share. Only SQLite uses `rows`: the
        parameter `{batch …}` becomes that many rows of `?` placeholders instead of one JSON text. Its values must come
        after those of all other parameters."""
        return _compiled(self, text, rows)

    def translate(self, text: str, rows: int) -> Compiled:
        parameters: list[str] = []
        batches: dict[str, TableParameter] = {}

        def place(name: str) -> str:
            if not self.numbered and not rows:
                return f":{name}"
            if name not in parameters:
                if rows and batches:
                    raise ValueError(
                        f"the parameter {name!r} comes after the batch; the values of the batch must be last"
                    )
                parameters.append(name)
            return f"{'$' if self.numbered else '?'}{parameters.index(name) + 1}"

        def array(parameter: str, kind: str) -> str:
            # The planner does not evaluate the subquery, and expects 10 elements. Without the subquery it parses the
            # array once more to count them, and for a large batch prefers to read and hash the whole table: a claim
            # of 1,000 runs then read all 40,000 runs that were ready, instead of 1,000 entries of the primary key.
            return f"(SELECT {place(parameter)}::text)::{kind}[]"

        def batch(argument: str) -> str:
            name, _, described = argument.partition(":")
            columns = tuple((column, kind) for column, kind in (part.split(None, 1) for part in described.split(",")))
            batches[name] = TableParameter(columns)
            if self.numbered:
                arrays = ", ".join(array(f"{name}.{column}", kind) for column, kind in columns)
                return f"unnest({arrays}) AS {name}({', '.join(column for column, _ in columns)})"
            if rows:  # `?` without number or name, because SQLite would look up each of them
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
            batches[name] = TableParameter(((column, kind),))
            if self.numbered:
                listed = array(f"{name}.{column}", kind)
                return (
                    f"(SELECT {column}, nth - 1 AS nth FROM unnest({listed}) WITH ORDINALITY AS listed({column}, nth)) "
                    f"AS {name}"
                )
            return f"(SELECT value AS {column}, key AS nth FROM json_each(:{name})) AS {name}"

        def one_of(argument: str) -> str:
            name, kind = argument.split(": ")
            batches[name] = TableParameter((("each", kind),))
            if self.numbered:
                return f"= ANY ({array(f'{name}.each', kind)})"
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
            if word == "each_attempt":
                return self.fragments[word].format(*argument.split(": "))
            if word == "text_of":
                column, path = argument.split(": ")
                return self.fragments[word].format(column, path.replace(".", "," if self.numbered else "."))
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
        "octets": "length(CAST({0} AS BLOB))",
        "bytewise": "{0}",
        "lock": "",
        "keep": "",
        "share": "",
        # SQLite never reorders a CROSS JOIN. With a JOIN it read every run of a session, because of an index on it.
        "each": "CROSS JOIN {0} AS {1} ON {1}.id = {2}",
        "each_locked": "CROSS JOIN {0} AS {1} ON {1}.id = {2}",
        "each_within": "CROSS JOIN {0} AS {1} ON {1}.id = {2}",
        "each_attempt": "CROSS JOIN attempts AS {0} ON {0}.run_id = {1}",
        "skip_locked": "",
        "skip_locked_of": "",
        "among": "IN",
        "among_end": "",
        "firsts": "JOIN {0} ON r.id IN",
        "of_firsts": "r.id",
        "firsts_end": "",
        "fires_of": "CROSS JOIN {0} ON",
        "fires_end": "",
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
        "text_of": "json_extract({0}, '$.{1}')",
        "clustered": "WITHOUT ROWID",
        "daily": "WITHOUT ROWID",
    },
)

POSTGRES = Dialect(
    name="postgres",
    numbered=True,
    fragments={
        "size": "octet_length({0})",
        "octets": "octet_length({0})",
        "bytewise": '({0} COLLATE "C")',
        "now": "(SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)",
        "each": "CROSS JOIN LATERAL (SELECT * FROM {0} WHERE {0}.id = {2} OFFSET 0) AS {1}",
        "each_locked": "CROSS JOIN LATERAL (SELECT * FROM {0} WHERE {0}.id = {2} OFFSET 0 FOR UPDATE) AS {1}",
        "each_within": "CROSS JOIN LATERAL (SELECT * FROM {0} WHERE {0}.id = {2} AND {3} OFFSET 0) AS {1}",
        "each_attempt": "CROSS JOIN LATERAL (SELECT * FROM attempts WHERE attempts.run_id = {1} OFFSET 0) AS {0}",
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
        "fires_of": "CROSS JOIN LATERAL (SELECT r.fire_time FROM {0} WHERE",
        "fires_end": "OFFSET 0) AS r",
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
        "text_of": "({0}::json #>> '{{{1}}}')",
        "clustered": "",
        "daily": "PARTITION BY RANGE ({0})",
    },
)
