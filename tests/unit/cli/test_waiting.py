"""Repeated requests while a command waits, also while a server restarts."""

from collections.abc import Callable

import pytest

from timeball.cli.waiting import look_until
from timeball.domain.errors import Unavailable


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr("timeball.cli.waiting.time.sleep", slept.append)
    return slept


def showing(*sights: str | Exception | None) -> Callable[[], str | None]:
    left = iter(sights)

    def look() -> str | None:
        sight = next(left)
        if isinstance(sight, Exception):
            raise sight
        return sight

    return look


def test_a_server_that_restarts_is_waited_out(slept: list[float]) -> None:
    away = Unavailable("cannot reach Timeball")
    assert look_until(showing(None, None, away, away, away, None, "it"), every=0.5) == "it"
    assert slept == [0.5, 0.5, 0.1, 0.2, 0.4, 0.5]


def test_one_that_was_never_there_is_not() -> None:
    with pytest.raises(Unavailable):
        look_until(showing(Unavailable("cannot reach Timeball"), "it"))
