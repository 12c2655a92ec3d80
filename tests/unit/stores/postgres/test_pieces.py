"""Inserts of several large documents are divided, so that none of them holds the event loop (I28)."""

from typing import Any

from timeball.stores.postgres.tx import MAX_STATEMENT_SIZE, pieces
from timeball.stores.sql.schema.jobs import IDEMPOTENCY, IdempotencyRow
from timeball.stores.sql.schema.table import as_tuple


def rows(*sizes: int) -> list[tuple[Any, ...]]:
    return [as_tuple(IdempotencyRow("t", f"k{at}", "f", "j", b"x" * size, 0)) for at, size in enumerate(sizes)]


def test_small_documents_are_inserted_together() -> None:
    small = rows(*[10] * 100)
    assert pieces(IDEMPOTENCY, small) == [small]


def test_no_piece_of_several_rows_is_larger_than_a_statement_may_be() -> None:
    half, whole = MAX_STATEMENT_SIZE // 2, MAX_STATEMENT_SIZE
    large = rows(half, half, 1, whole + 1, 1, half, half)
    found = pieces(IDEMPOTENCY, large)
    assert [[len(row[4]) for row in piece] for piece in found] == [[half, half], [1], [whole + 1], [1, half], [half]]
    assert [row for piece in found for row in piece] == large
