"""Checks that the tasks of a workflow are consistent: names, needs, references, and no cycle.

The check runs when a workflow is created or changed. It runs in steps, between which the event loop can do other work:
the check of a workflow of 10,000 tasks with 100,000 needs takes a quarter of a second.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Final

from msgspec import UNSET

from timeball.domain.errors import WrongValue
from timeball.domain.workflow.definition import WorkflowTask
from timeball.domain.workflow.references import (
    MAX_INSTANCES,
    SIZE_PER_STEP,
    Item,
    Parameter,
    Reference,
    Result,
    Unreadable,
    reference,
    searched,
)

MAX_NEEDS: Final = 100_000
"""Maximum number of needs of all tasks of a workflow together."""
MAX_SHOWN: Final = 20
"""Maximum number of task names of a cycle in an error message."""
MAX_PROBLEMS: Final = 100
"""Number of problems after which the check stops."""


def check(tasks: Sequence[WorkflowTask]) -> tuple[WrongValue, ...]:
    """Return the problems of a list of tasks, each with a JSON pointer into the list."""
    steps = checking(tasks)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            problems: tuple[WrongValue, ...] = end.value
            return problems


def checking(tasks: Sequence[WorkflowTask]) -> Generator[None, None, tuple[WrongValue, ...]]:
    """Check a list of tasks in steps of about a millisecond each. The generator returns the problems, at most about
    `MAX_PROBLEMS`."""
    if sum(len(task.needs) for task in tasks) > MAX_NEEDS:
        return (WrongValue("", f"the tasks have more than {MAX_NEEDS:,} needs in total"),)
    problems: list[WrongValue] = []
    known: set[str] = set()
    for at, task in enumerate(tasks):
        if task.name in known:
            problems.append(
                WrongValue(f"/{at}/name", f"two tasks have the name {task.name!r}; task names must be unique")
            )
        known.add(task.name)
    size = 0
    for at, task in enumerate(tasks):
        size += 1 + len(task.needs)
        if size > SIZE_PER_STEP:
            size = 0
            yield
        problems += _wrong_needs(at, task, known)
        if task.parameters or task.for_each is not UNSET:
            yield from _wrong_references(at, task, problems)
        if len(problems) >= MAX_PROBLEMS:
            return tuple(problems)
    yield
    return tuple(problems) or (yield from _cycle(tasks))


def _wrong_needs(at: int, task: WorkflowTask, known: set[str]) -> Iterator[WrongValue]:
    seen: set[str] = set()
    for place, need in enumerate(task.needs):
        if need == task.name:
            yield WrongValue(f"/{at}/needs/{place}", f"task {need!r} needs itself")
        elif need not in known:
            yield WrongValue(f"/{at}/needs/{place}", f"there is no task {need!r}")
        elif need in seen:
            yield WrongValue(f"/{at}/needs/{place}", f"task {need!r} is listed twice")
        seen.add(need)
    if task.run_if == "any_failed" and not task.needs:
        yield WrongValue(f"/{at}/runIf", "any_failed requires at least one task in needs")


def _wrong_references(at: int, task: WorkflowTask, problems: list[WrongValue]) -> Generator[None, None, None]:
    sources = [("/parameters", task.parameters)]
    if isinstance(task.for_each, dict):
        sources.append(("/forEach", task.for_each))
        if not isinstance(reference(task.for_each), Result | Parameter):
            detail = 'forEach must be a list, or a reference such as {"$result": "list-files"}'
            problems.append(WrongValue(f"/{at}/forEach", detail))
    elif isinstance(task.for_each, list) and len(task.for_each) > MAX_INSTANCES:
        problems.append(WrongValue(f"/{at}/forEach", f"forEach has more than {MAX_INSTANCES:,} items"))
    needs = frozenset(task.needs)
    for where, value in sources:
        for found in searched(value):
            if found is None:
                yield
                continue
            detail_or_none = _wrong_reference(found, task, needs, inside=where)
            if detail_or_none is not None:
                problems.append(WrongValue(f"/{at}{where}", detail_or_none))
                if len(problems) >= MAX_PROBLEMS:
                    return


def _wrong_reference(
    found: Reference | Unreadable, task: WorkflowTask, needs: frozenset[str], inside: str
) -> str | None:
    match found:
        case Unreadable(detail):
            return detail
        case Result(source) if source not in needs:
            return f"the task uses the result of {source!r}, which is not among its needs"
        case Item() if task.for_each is UNSET or inside == "/forEach":
            return "$item is allowed only in the parameters of a task with forEach"
        case _:
            return None


def _cycle(tasks: Sequence[WorkflowTask]) -> Generator[None, None, tuple[WrongValue, ...]]:
    """Search for a cycle, in steps. Return a problem that names its tasks in the order in which they would have to run;
    an empty tuple if there is no cycle."""
    needs = {task.name: task.needs for task in tasks}
    waits = {name: len(each) for name, each in needs.items()}
    needed_by: dict[str, list[str]] = {name: [] for name in needs}
    size = 0
    for name, each in needs.items():
        for need in each:
            needed_by[need].append(name)
        size += 1 + len(each)
        if size > SIZE_PER_STEP:
            size = 0
            yield
    free = [name for name, count in waits.items() if not count]
    while free:
        name = free.pop()
        del waits[name]
        for other in needed_by[name]:
            waits[other] -= 1
            if not waits[other]:
                free.append(other)
        size += 1 + len(needed_by[name])
        if size > SIZE_PER_STEP:
            size = 0
            yield
    if not waits:
        return ()
    # Each remaining task needs another remaining task, so following the needs reaches the same task again.
    path: dict[str, int] = {}
    name = next(iter(waits))
    while name not in path:
        path[name] = len(path)
        name = next(need for need in needs[name] if need in waits)
    cycle = [*reversed([each for each, place in path.items() if place >= path[name]])]
    places = {task.name: at for at, task in enumerate(tasks)}
    first = cycle.index(min(cycle, key=places.__getitem__))
    cycle = [*cycle[first:], *cycle[:first], cycle[first]]
    shown = cycle if len(cycle) <= MAX_SHOWN else [*cycle[: MAX_SHOWN - 2], "…", cycle[-1]]
    return (WrongValue(f"/{places[cycle[0]]}/needs", f"the tasks need each other in a cycle: {' → '.join(shown)}"),)
