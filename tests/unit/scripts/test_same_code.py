"""Which changes `scripts.same_code` accepts as wording, and which it reports as code."""

import pytest

from scripts.same_code import same_code


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"""Old words."""\nx = 1', '"""New words."""\nx = 1  # why'),
        ('raise ValueError("it was bad")', 'raise ValueError("The value is bad.")'),
        ('f"{a} is not {b}"', 'f"expected {b}, got {a}"'),
        ("LIMIT = 1\n'''How many.'''", "LIMIT = 1\n'''Maximum number of rows.'''"),
    ],
)
def test_words_may_change(before: str, after: str) -> None:
    assert same_code("a.py", before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1", "x = 2"),
        ('key = "run_id"', 'key = "runId"'),
        ('f"{a} is bad"', 'f"{b} is bad"'),
        ('sql = "SELECT 1 FROM a"', 'sql = "SELECT 2 FROM a"'),
        ("def f(a): ...", "def f(b): ..."),
    ],
)
def test_code_may_not(before: str, after: str) -> None:
    assert not same_code("a.py", before, after)


def test_comments_of_statements_may_change_and_nothing_else() -> None:
    before = "-- name: a\n-- Old words.\nSELECT 1;"
    assert same_code("a.sql", before, "-- name: a\n-- New words,\n-- in two lines.\nSELECT\n  1;")
    assert not same_code("a.sql", before, "-- name: b\n-- Old words.\nSELECT 1;")
    assert not same_code("a.sql", before, "-- name: a\n-- Old words.\nSELECT 2;")
