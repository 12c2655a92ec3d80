"""The statements of the SQL store: each says what it is for and means the same in both dialects."""

import re
import sqlite3
from contextlib import closing
from importlib import resources

import pytest

from timeball.stores.sql import store
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
                "WHERE at < :most AND at > :most"
            ),
            (),
        ),
        (
            POSTGRES,
            (
                "SELECT * FROM unnest($1::text::text[], $2::text::bigint[]) AS b(id, at) "
                "JOIN unnest($3::text::text[]) AS c(id) WHERE at < $4 AND at > $4"
            ),
            ("b.id", "b.at", "c.id", "most"),
        ),
    ],
    ids=["sqlite", "postgres"],
)
def test_parameters_and_batches(dialect: Dialect, sql: str, parameters: tuple[str, ...]) -> None:
    text = "SELECT * FROM {batch b: id text, at bigint} JOIN {batch c: id text} WHERE at < :most AND at > :most"
    compiled = dialect.compile(text)
    assert (compiled.sql, compiled.parameters) == (sql, parameters)
    assert set(compiled.batches) == {"b", "c"}


def test_what_nobody_knows_is_an_error() -> None:
    with pytest.raises(KeyError):
        SQLITE.compile("SELECT {no_such_fragment}")
