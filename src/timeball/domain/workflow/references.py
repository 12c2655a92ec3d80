"""References in the parameters of workflow tasks: parses them, and replaces them by the values that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, assert_never

import msgspec
from msgspec import UNSET, Struct

from timeball.domain.workflow.definition import WorkflowTask

MAX_INSTANCES: Final = 10_000
"""Maximum number of instances of one task with `forEach`."""
SIZE_PER_STEP: Final = 5_000
"""Number of tasks, needs and values that one step of a check reads."""
LARGEST: Final = 1 << 20
"""Maximum size, in bytes, of the parameters of one task after all references are replaced. It is the maximum size of a
request body."""


class Result(Struct, frozen=True):
    """A reference to the result of a task, or to the value at a JSON pointer in it."""

    source: str
    path: str = ""
    default: Any = UNSET


class Item(Struct, frozen=True):
    """A reference to the item of a `forEach`, or to the value at a JSON pointer in it."""

    path: str = ""


class Parameter(Struct, frozen=True):
    """A reference to a parameter of the workflow."""

    name: str


Reference = Result | Item | Parameter


class Unreadable(Struct, frozen=True):
    """An object that looks like a reference but is not a valid one."""

    detail: str


class MissingReference(Exception):
    """Raised when the value of a reference does not exist. The message is the reason."""


_FIELDS: Final = {"$result": {"path", "default"}, "$item": set[str](), "$parameter": set[str]()}


def reference(value: dict[str, Any]) -> Reference | Unreadable | None:
    """Parse an object as a reference. Return None if it is an ordinary object."""
    word = next((word for word in _FIELDS if word in value), None)
    if word is None:
        return None
    named = value[word]
    if not isinstance(named, str) or (extra := value.keys() - {word} - _FIELDS[word]):
        wrong = f"has no field {sorted(extra)[0]!r}" if isinstance(named, str) else f"must be a text, not {named!r:.50}"
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
    """Yield all references at any depth of a value."""
    return (found for found in searched(value) if found is not None)


def searched(value: Any) -> Iterator[Reference | Unreadable | None]:
    """Yield all references at any depth of a value, and None after each `SIZE_PER_STEP` values, so that the caller can
    let the event loop do other work."""
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
    """Return the names of the tasks whose results a task uses."""
    every = [*references(task.parameters)]
    if isinstance(task.for_each, dict):
        every += references(task.for_each)
    return {found.source for found in every if isinstance(found, Result)}


def resolve(value: Any, look_up: Callable[[Reference], Any]) -> Any:
    """Return a value in which every reference is replaced by the result of `look_up`. Raise `MissingReference` if a
    value does not exist."""
    if isinstance(value, dict):
        found = reference(value)
        if found is None:
            return {name: resolve(each, look_up) for name, each in value.items()}
        assert not isinstance(found, Unreadable), "references are checked when a workflow is created or changed"
        return look_up(found)
    if isinstance(value, list):
        return [resolve(each, look_up) for each in value]
    return value


def at_path(value: Any, path: str, of: str) -> Any:
    """Return the value at a JSON pointer (RFC 6901). `of` names the value in the message of `MissingReference`, which
    is raised if there is none."""
    for step in path.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isascii() and key.isdigit() and int(key[:9]) < len(value):
            value = value[int(key[:9])]
        else:
            raise MissingReference(f"there is no {path} in {of}")
    return value


class KnownReferences(Struct):
    """The values that the references of a task can have. Calling it returns the value of one reference."""

    results: Mapping[str, Any]
    """The results of the tasks in `needs`, by name; a `MissingReference` for a task without a result."""
    parameters: Mapping[str, Any]
    item: Any = UNSET

    def __call__(self, wanted: Reference) -> Any:
        match wanted:
            case Result(source, path, default):
                try:
                    found = self.results[source]
                    if isinstance(found, MissingReference):
                        raise MissingReference(*found.args)
                    return at_path(found, path, f"the result of task {source}")
                except MissingReference:
                    if default is UNSET:
                        raise
                    return default
            case Item(path):
                return at_path(self.item, path, "this item")
            case Parameter(name):
                if name not in self.parameters:
                    raise MissingReference(f"the workflow has no parameter {name!r}")
                return self.parameters[name]
            case _:
                assert_never(wanted)


def items(task: WorkflowTask, known: KnownReferences) -> list[Any]:
    """Return the items of a task with `forEach`. Raise `MissingReference` if they do not exist or are too many."""
    if isinstance(task.for_each, list):
        return task.for_each
    found = resolve(task.for_each, known)
    if not isinstance(found, list):
        raise MissingReference(f"forEach needs a list, and got {type(found).__name__}")
    if len(found) > MAX_INSTANCES:
        raise MissingReference(f"forEach got {len(found):,} items; the maximum is {MAX_INSTANCES:,}")
    return found


def parameters(task: WorkflowTask, known: KnownReferences) -> dict[str, Any]:
    """Return the parameters of a task with all references replaced. Raise `MissingReference` if a value does not exist
    or the parameters are too large."""
    found: dict[str, Any] = resolve(task.parameters, known)
    if found is not task.parameters and (size := len(msgspec.json.encode(found))) > LARGEST:
        raise MissingReference(f"the parameters of the task have {size:,} bytes; the maximum is {LARGEST:,}")
    return found
