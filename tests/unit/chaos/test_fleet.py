"""How `timeball chaos` puts its proxies between a fleet and its database."""

import pytest

from timeball.chaos.fleet import _reach, _through, is_nearby


@pytest.mark.parametrize(
    ("store", "address"),
    [
        ("postgresql://u:p%40w@db:5433/x?sslmode=require", "postgresql://u:p%40w@127.0.0.1:7000/x?sslmode=require"),
        ("postgresql://timeball@/x?host=%2Ftmp%2Fpg&port=5433", "postgresql://timeball@127.0.0.1:7000/x"),
        ("postgresql://db/x", "postgresql://127.0.0.1:7000/x"),
    ],
)
def test_the_same_database_by_way_of_a_link(store: str, address: str) -> None:
    assert _through(store, 7000) == address


@pytest.mark.parametrize(
    "store", ["postgresql://a:5432,b:5432/x", "postgresql://u@/x?host=a,b", "postgresql://db/x?sslmode=verify-full"]
)
def test_who_insists_on_the_right_host_gets_no_link(store: str) -> None:
    assert _reach(store) is None


def test_others_get_one() -> None:
    assert _reach("postgresql://u@db/x") is not None
    assert _reach("postgresql://u@/x?host=/tmp/pg") is not None


@pytest.mark.parametrize(
    ("store", "nearby"),
    [
        (None, True),
        ("postgresql://u@/x?host=%2Ftmp%2Fpg", True),
        ("postgresql://u@localhost/x", True),
        ("postgresql://u@db.example.com/x", False),
    ],
)
def test_whose_clock_the_store_has(store: str | None, nearby: bool) -> None:
    assert is_nearby(store) is nearby
