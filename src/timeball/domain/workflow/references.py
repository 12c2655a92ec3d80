"""References in the parameters of a workflow's tasks: what they stand for, and the value with everything filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, assert_never

import msgspec
from msgspec import UNSET, Struct

from timeball.domain.workflow.definition import WorkflowTask

MAX_INSTANCES: Final = 10_000
"""Of one task with `forEach`."""
SIZE_PER_STEP: Final = 5_000
"""Tasks, needs and values that are looked at in one step of a check."""
LARGEST: Final = 1 << 20
"""Bytes of the parameters of one task, once the results of others are in them: as much as a request may bring."""


class Result(Struct, frozen=True):
    """The result of a task, or what a pointer finds in it."""

    source: str
    path: str = ""
    default: Any = UNSET


class Item(Struct, frozen=True):
    """The item of a `forEach`."""

    path: str = ""


class Parameter(Struct, frozen=True):
    """A parameter of the workflow."""

    name: str


Reference = Result | Item | Parameter


class Unreadable(Struct, frozen=True):
    """An object that looks like a reference and is none."""

    detail: str


class Missing(Exception):
    """What a reference stands for is not there; says why."""


_FIELDS: Final = {"$result": {"path", "default"}, "$item": set[str](), "$parameter": set[str]()}


def reference(value: dict[str, Any]) -> Reference | Unreadable | None:
    """What an object stands for, if it is a reference."""
    word = next((word for word in _FIELDS if word in value), None)
    if word is None:
        return None
    named = value[word]
    if not isinstance(named, str) or (extra := value.keys() - {word} - _FIELDS[word]):
        wrong = f"has no field {sorted(extra)[0]!r}" if isinstance(named, str) else f"names a text, not {named!r:.50}"
        return Unreadable(f"{word} {wrong}")
    path = named if word == "$item" else value.get("path", "")
    if not isinstance(path, str) or (path and not path.startswith("/")):
        return Unreadable(f"{path!r:.100} is not a JSON pointer; write it like /rows/0")
    match word:
        case "$result":
            return Result(named, path, value.get("default", UNSET))
        case "$item":
            return Item(path)
        case _:
            return Parameter(named)


def references(value: Any) -> Iterator[Reference | Unreadable]:
    """All that is referred to anywhere in a value."""
    return (found for found in searched(value) if found is not None)


def searched(value: Any) -> Iterator[Reference | Unreadable | None]:
    """The same, with a None now and then, where others may have a turn."""
    waiting = [value]
    looked_at = 0
    while waiting:
        each = waiting.pop()
        looked_at += 1
        if looked_at > SIZE_PER_STEP:
            looked_at = 0
            yield None
        if isinstance(each, dict):
            found = reference(each)
            if found is None:
                waiting += each.values()
            else:
                yield found
        elif isinstance(each, list):
            waiting += each


def sources(task: WorkflowTask) -> set[str]:
    """The tasks whose results it uses."""
    every = [*references(task.parameters)]
    if isinstance(task.for_each, dict):
        every += references(task.for_each)
    return {found.source for found in every if isinstance(found, Result)}


def resolve(value: Any, look_up: Callable[[Reference], Any]) -> Any:
    """The value with everything in it that is referred to. Raises `Missing`."""
    if isinstance(value, dict):
        found = reference(value)
        if found is None:
            return {name: resolve(each, look_up) for name, each in value.items()}
        assert not isinstance(found, Unreadable), "it was checked when the workflow was written"
        return look_up(found)
    if isinstance(value, list):
        return [resolve(each, look_up) for each in value]
    return value


def at_path(value: Any, path: str, of: str) -> Any:
    """What a JSON pointer (RFC 6901) finds. Raises `Missing`."""
    for step in path.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isascii() and key.isdigit() and int(key[:9]) < len(value):
            value = value[int(key[:9])]
        else:
            raise Missing(f"there is no {path} in {of}")
    return value


class Known(Struct):
    """What the references of a task stand for."""

    results: Mapping[str, Any]
    """What the tasks it needs left behind: a `Missing` for those that left nothing."""
    parameters: Mapping[str, Any]
    item: Any = UNSET

    def __call__(self, wanted: Reference) -> Any:
        match wanted:
            case Result(source, path, default):
                try:
                    found = self.results[source]
                    if isinstance(found, Missing):
                        raise Missing(*found.args)
                    return at_path(found, path, f"the result of task {source}")
                except Missing:
                    if default is UNSET:
                        raise
                    return default
            case Item(path):
                return at_path(self.item, path, "this item")
            case Parameter(name):
                if name not in self.parameters:
                    raise Missing(f"the workflow has no parameter {name!r}")
                return self.parameters[name]
            case _:
                assert_never(wanted)


def items(task: WorkflowTask, known: Known) -> list[Any]:
    """What a task with `forEach` runs over. Raises `Missing`."""
    if isinstance(task.for_each, list):
        return task.for_each
    found = resolve(task.for_each, known)
    if not isinstance(found, list):
        raise Missing(f"forEach wants a list, and got {type(found).__name__}")
    if len(found) > MAX_INSTANCES:
        raise Missing(f"forEach got {len(found):,} items; {MAX_INSTANCES:,} are the most")
    return found


def parameters(task: WorkflowTask, known: Known) -> dict[str, Any]:
    """What a task is executed with. Raises `Missing`."""
    found: dict[str, Any] = resolve(task.parameters, known)
    if found is not task.parameters and (size := len(msgspec.json.encode(found))) > LARGEST:
        raise Missing(f"its parameters come to {size:,} bytes; {LARGEST:,} are the most")
    return found
