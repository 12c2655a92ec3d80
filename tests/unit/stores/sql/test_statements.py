"""The statements of the SQL store: each has a comment and means the same in both dialects."""

import re
import sqlite3
from contextlib import closing
from importlib import resources

import pytest

from timeball.stores.sql import names, store
from timeball.stores.sql.dialect import POSTGRES, SQLITE, Dialect, Query
from timeball.stores.sql.migrate import known
from timeball.stores.sql.statements import files

BLOCKS = [
    block
    for file in files(resources.files("timeball.stores.sql").joinpath("queries"))
    for block in re.split(r"^-- name: ", file.read_text("utf-8"), flags=re.MULTILINE)[1:]
]
QUERIES = sorted(
    {
        value.name: value
        for part in store.SqlStore.__mro__
        for value in vars(__import__(part.__module__, fromlist=["*"])).values()
        if isinstance(value, Query)
    }.items()
)


_NAMED = re.compile(r"(?<!:):([a-z_]+)")


def test_every_statement_says_what_for() -> None:
    for block in BLOCKS:
        name, purpose, *_ = block.splitlines()
        assert re.fullmatch(r"-- [A-Z].*[.,a-z]", purpose), name


def test_every_statement_is_valid_on_the_schema() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        for migration in known():
            for statement in migration.statements(SQLITE):
                sql = SQLITE.compile(statement.text).sql
                connection.execute(sql, dict.fromkeys(_NAMED.findall(sql), 0))
        for name, query in QUERIES:
            compiled = SQLITE.compile(query.text)
            try:
                connection.execute(f"EXPLAIN {compiled.sql}", dict.fromkeys(_NAMED.findall(compiled.sql)))
            except sqlite3.Error as error:
                pytest.fail(f"{name}: {error}")


@pytest.mark.parametrize(
    ("dialect", "sql", "parameters"),
    [
        (
            SQLITE,
            (
                "SELECT * FROM (SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS at "
                "FROM json_each(:b)) AS b JOIN (SELECT value AS id FROM json_each(:c)) AS c "
                "WHERE at < :limit AND at > :limit"
            ),
            (),
        ),
        (
            POSTGRES,
            (
                "SELECT * FROM unnest((SELECT $1::text)::text[], (SELECT $2::text)::bigint[]) AS b(id, at) "
                "JOIN unnest((SELECT $3::text)::text[]) AS c(id) WHERE at < $4 AND at > $4"
            ),
            ("b.id", "b.at", "c.id", "limit"),
        ),
    ],
    ids=["sqlite", "postgres"],
)
def test_parameters_and_batches(dialect: Dialect, sql: str, parameters: tuple[str, ...]) -> None:
    text = "SELECT * FROM {batch b: id text, at bigint} JOIN {batch c: id text} WHERE at < :limit AND at > :limit"
    compiled = dialect.compile(text)
    assert (compiled.sql, compiled.parameters) == (sql, parameters)
    assert set(compiled.batches) == {"b", "c"}


def test_what_nobody_knows_is_an_error() -> None:
    with pytest.raises(KeyError):
        SQLITE.compile("SELECT {no_such_fragment}")


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("state = {state.ready}", "state = 'ready'"),
        ("(holds & {hold.turn}) = {hold.turn}", "(holds & 2) = 2"),
        ("(holds & {hold.overlap+turn}) = {hold.turn}", "(holds & 3) = 2"),
        ("origin NOT IN ({origin.backfill}, {origin.task})", "origin NOT IN ('backfill', 'task')"),
        ("lapsed <> {lease.lapsed} AND eligible_at <= {now}", "lapsed <> 1 AND eligible_at <= {now}"),
        ("profile = {profile.workflow}", "profile = '5|1|0|0|(workflow)'"),
    ],
)
def test_names_of_values_are_resolved(text: str, resolved: str) -> None:
    assert names.resolve(text) == resolved


@pytest.mark.parametrize("unknown", ["{state.gone}", "{no_such_kind.ready}"])
def test_a_name_without_a_value_is_an_error(unknown: str) -> None:
    with pytest.raises(KeyError):
        names.resolve(f"state = {unknown}")


def test_statements_mention_values_by_their_names() -> None:
    """A state, a status or a bit of `holds` is written as what it is called. What is left are the names of rows of
    `meta`, and of a table of PostgreSQL."""
    values = {value for kind in names.NAMES.values() for value in kind.values()}
    written = {
        word for block in BLOCKS for word in re.findall(r"'([^']+)'", re.sub(r"--.*", "", block)) if word in values
    }
    assert written == set()
    assert not [block for block in BLOCKS if re.search(r"holds (?:&|=|\+|-) \d|lapsed (?:=|<>) \d", block)]


def test_the_database_gets_the_values_themselves() -> None:
    assert not [name for name, query in QUERIES if re.search(r"\{\w+\.\w+", query.text)]
