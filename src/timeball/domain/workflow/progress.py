"""How a workflow run advances: the state of each task, and what follows for others from how a task ends.

Nothing here looks at a whole graph while it runs: a task counts what it still waits for.
"""

from __future__ import annotations

import graphlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, assert_never

from msgspec import Struct

from timeball.domain.text.english import counted
from timeball.domain.workflow.definition import RunIf, WorkflowTask
from timeball.domain.workflow.references import sources


class TaskState(StrEnum):
    """Where a task of a workflow run stands. The last four are its end."""

    WAITING = "waiting"
    """For the tasks that it needs."""
    RUNNING = "running"
    """It has a run, or several, that are its own: queued, executing or waiting for another attempt."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    """What its `runIf` asks for did not come about; its reason says what."""


ENDED: Final = frozenset({TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED, TaskState.SKIPPED})


class Step(Struct):
    """A task of a workflow run, or one instance of one with `forEach`; changed as it goes on."""

    place: int
    """Its position in the workflow."""
    index: int
    """Of the item; -1: the task itself."""
    name: str
    state: TaskState = TaskState.WAITING
    fresh: bool = False
    """Whether somebody has to look at it: it may run, or it has ended and nobody has told those who need it."""
    waits: int = 0
    """Tasks that it needs and that have not ended."""
    unmet: int = 0
    """Of those that have, how many did not succeed."""
    ill: int = 0
    """Of those, how many failed, or were skipped because another one had."""
    because: str = ""
    """One that did not succeed: a failed one, if there is such."""
    run_if: RunIf = "all_succeeded"
    open: int = 0
    """Instances that have not ended."""
    instances: int | None = None
    """How many it has; None: it has no `forEach`, or has not begun."""
    run_id: str | None = None
    reason: str = ""
    item: str | None = None
    """JSON, of an instance."""

    @property
    def key(self) -> tuple[int, int]:
        return self.place, self.index

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def is_ill(self) -> bool:
        """Whether it counts as a failure for those who need it."""
        return self.state in (TaskState.FAILED, TaskState.CANCELLED) or (
            self.state is TaskState.SKIPPED and self.ill > 0
        )

    @property
    def is_well(self) -> bool:
        """Whether it ended as it should: it succeeded, or was skipped, and not for a failure."""
        return self.has_ended and not self.is_ill

    def end(self, state: TaskState, reason: str = "") -> None:
        self.state, self.reason, self.fresh = state, reason, True


class Node(Struct, frozen=True):
    """What of a task in a graph never changes."""

    task: WorkflowTask
    children: tuple[int, ...]
    """The places of those who need it."""
    sources: dict[str, int]
    """The places of the tasks whose results it uses."""


def graph(tasks: Sequence[WorkflowTask]) -> list[Node]:
    """The tasks, in their places."""
    places = {task.name: place for place, task in enumerate(tasks)}
    children: list[list[int]] = [[] for _ in tasks]
    for place, task in enumerate(tasks):
        for need in task.needs:
            children[places[need]].append(place)
    return [
        Node(task, tuple(children[place]), {name: places[name] for name in sorted(sources(task))})
        for place, task in enumerate(tasks)
    ]


def begin(tasks: Sequence[WorkflowTask], kept: Mapping[int, Step] = MappingProxyType({})) -> list[Step]:
    """The steps of a workflow run that starts, where those at the `kept` places have ended before."""
    places = {task.name: place for place, task in enumerate(tasks)}
    steps = []
    for place, task in enumerate(tasks):
        if place in kept:
            steps.append(kept[place])
            continue
        step = Step(place=place, index=-1, name=task.name, waits=len(task.needs), run_if=task.run_if)
        step.fresh = not task.needs
        for need in task.needs:
            if (ended := kept.get(places[need])) is not None:
                tell(ended, step)
        steps.append(step)
    return steps


def kept(tasks: Sequence[WorkflowTask], before: Mapping[int, Step]) -> dict[int, Step]:
    """What a retry leaves alone: tasks that succeeded, or had no reason to run, and need nothing that runs again."""
    places = {task.name: place for place, task in enumerate(tasks)}
    stays: dict[int, Step] = {}
    for name in graphlib.TopologicalSorter({task.name: task.needs for task in tasks}).static_order():
        place = places[name]
        old = before.get(place)
        if old is not None and old.is_well and all(places[need] in stays for need in tasks[place].needs):
            stays[place] = old
    return stays


def tell(ended: Step, child: Step) -> None:
    """Let a task know that one it needs has ended."""
    child.waits -= 1
    if ended.state is not TaskState.SUCCEEDED:
        if not child.unmet or (ended.is_ill and not child.ill):
            child.because = ended.name
        child.unmet += 1
        child.ill += ended.is_ill
    if child.waits == 0:
        child.fresh = True


def skip_reason(step: Step) -> str | None:
    """Why a task all of whose needs have ended does not run; None: it does."""
    match step.run_if:
        case "all_succeeded":
            if not step.unmet:
                return None
            others = f" (nor did {counted(step.unmet - 1, 'other')})" if step.unmet > 1 else ""
            return f"task {step.because} did not succeed{others}"
        case "any_failed":
            return None if step.ill else "none of the tasks it needs failed"
        case "always":
            return None
        case _:
            assert_never(step.run_if)


def join(task: Step, failed: int, first: str) -> None:
    """End a task with `forEach`, all of whose instances have ended."""
    if failed:
        task.end(TaskState.FAILED, f"{failed} of {task.instances} instances did not succeed; the first: {first}")
    else:
        task.end(TaskState.SUCCEEDED)
