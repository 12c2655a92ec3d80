"""`Client` and `AsyncClient` have the same methods, parameters, answers and docstrings."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from timeball import AsyncClient, Client

RENAMED = {"close": "aclose", "__enter__": "__aenter__", "__exit__": "__aexit__"}


def methods(kind: type) -> dict[str, Callable[..., Any]]:
    """Its own and those of the modules in `timeball.client.methods`."""
    found = dict(inspect.getmembers(kind, inspect.isfunction))
    return {name: method for name, method in found.items() if name.startswith("__") or not name.startswith("_")}


def answer(method: Callable[..., Any]) -> str:
    """What is got in the end, as it is annotated."""
    return str(inspect.signature(method).return_annotation)


def expected(text: str) -> set[str]:
    """How the asynchronous client annotates what the synchronous one answers."""
    if items := re.fullmatch(r"Iterator\[(.+)\]", text):
        return {f"AsyncIterator[{items[1]}]", f"AsyncGenerator[{items[1]}, None]"}
    return {text}


def test_they_have_the_same_methods() -> None:
    assert len(methods(Client)) > 50
    assert {RENAMED.get(name, name) for name in methods(Client)} == set(methods(AsyncClient))


@pytest.mark.parametrize("name", methods(Client))
def test_a_method_is_called_in_the_same_way_and_answers_the_same(name: str) -> None:
    one, other = methods(Client)[name], methods(AsyncClient)[RENAMED.get(name, name)]
    parameters = {key: str(each) for key, each in inspect.signature(one).parameters.items()}
    if name == "__init__":
        parameters["transport"] = parameters["transport"].replace("Transport", "AsyncTransport")
    assert parameters == {key: str(each) for key, each in inspect.signature(other).parameters.items()}
    assert answer(other) in expected(answer(one))
    assert inspect.getdoc(one) == inspect.getdoc(other)


@pytest.mark.parametrize("name", methods(AsyncClient))
def test_what_waits_is_awaited_and_what_comes_one_by_one_is_iterated(name: str) -> None:
    method = methods(AsyncClient)[name]
    comes_one_by_one = answer(method).startswith("Async")
    assert inspect.iscoroutinefunction(method) is not (comes_one_by_one or name == "__init__")
