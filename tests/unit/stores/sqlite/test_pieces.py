"""SQLite gets the rows of a statement in pieces: together they are all rows, and no piece has too many values."""

import sqlite3

import pytest

from timeball.stores.sql.dialect import SQLITE, Query
from timeball.stores.sqlite.clock import SteadyClock
from timeball.stores.sqlite.tx import MAX_VALUES, Tx, _together, run

NOTE = Query(
    "note",
    "INSERT INTO noted SELECT b.id, b.word, :by || :least FROM {batch b: id bigint, word text} WHERE b.id >= :least",
    piecemeal=True,
)


@pytest.fixture
def connection() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE noted (id INTEGER PRIMARY KEY, word TEXT, by TEXT)")
    return connection


@pytest.mark.parametrize("count", [0, 1, 7, 8, 50, 999, 1_000, 1_563, 2_500])
@pytest.mark.parametrize("width", [1, 6, 31, 40])
def test_the_pieces_are_all_rows_in_their_order(count: int, width: int) -> None:
    rows = [(number,) * width for number in range(count)]
    pieces = list(_together(rows))
    assert [row for _, piece in pieces for row in piece] == rows
    assert all(len(piece) == size and size * width <= MAX_VALUES for size, piece in pieces if size)
    assert all(0 < len(piece) < 8 for size, piece in pieces if not size)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 1_563])
def test_a_statement_counts_what_all_its_pieces_wrote(connection: sqlite3.Connection, count: int) -> None:
    rows = [(number, f"word {number}") for number in range(count)]

    async def work(tx: Tx) -> int:
        return await tx.execute(NOTE, b=rows, by="me", least=2)

    written = run(work, Tx(connection, SteadyClock(lambda: 0, lambda: 0)))
    expected = [(*row, "me2") for row in rows[2:]]
    assert connection.execute("SELECT * FROM noted ORDER BY id").fetchall() == expected
    assert written == len(expected)


def test_the_values_of_the_batch_come_last() -> None:
    with pytest.raises(ValueError, match="'least' comes after the batch"):
        SQLITE.compile("SELECT b.id FROM {batch b: id bigint} WHERE b.id >= :least", rows=8)
