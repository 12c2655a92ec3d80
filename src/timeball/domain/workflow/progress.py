"""The progress of a workflow run: the state of each task, and the effect of its end on the tasks that need it.

The end of a task changes only the tasks that need it: each task counts the tasks that it still waits for.
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
    """The state of a task of a workflow run. All states but `waiting` and `running` are final."""

    WAITING = "waiting"
    """The task waits for tasks that it needs."""
    RUNNING = "running"
    """The task has one or several runs, which are queued, executing or waiting for another attempt."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    """The condition in `runIf` was not met. The reason of the task says why."""


ENDED: Final = frozenset({TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED, TaskState.SKIPPED})


class WorkflowStep(Struct):
    """The state of one task of a workflow run, or of one instance of a task with `forEach`. It is mutable."""

    place: int
    """The position of the task in the workflow."""
    index: int
    """The index of the item of an instance; -1 for the task itself."""
    name: str
    state: TaskState = TaskState.WAITING
    fresh: bool = False
    """True if the task is ready to start, or has ended and its dependents have not been updated."""
    waits: int = 0
    """Number of tasks in `needs` that have not ended."""
    unmet: int = 0
    """Number of tasks in `needs` that have ended without success."""
    ill: int = 0
    """Number of tasks in `needs` that failed, were cancelled, or were skipped because of a failure. They are included
    in `unmet`."""
    because: str = ""
    """The name of a task in `needs` that did not succeed; a failed one, if there is one."""
    run_if: RunIf = "all_succeeded"
    open: int = 0
    """Number of instances that have not ended."""
    instances: int | None = None
    """Number of instances; None if the task has no `forEach`, or has not started."""
    run_id: str | None = None
    reason: str = ""
    item: str | None = None
    """The item of an instance, as JSON."""

    @property
    def key(self) -> tuple[int, int]:
        return self.place, self.index

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def counts_as_failed(self) -> bool:
        """True if the task counts as failed for the tasks that need it."""
        return self.state in (TaskState.FAILED, TaskState.CANCELLED) or (
            self.state is TaskState.SKIPPED and self.ill > 0
        )

    @property
    def is_well(self) -> bool:
        """True if the task succeeded, or was skipped for a reason other than a failure."""
        return self.has_ended and not self.counts_as_failed

    def end(self, state: TaskState, reason: str = "") -> None:
        self.state, self.reason, self.fresh = state, reason, True


class Node(Struct, frozen=True):
    """A task in the graph of a workflow. Unlike `WorkflowStep`, it never changes."""

    task: WorkflowTask
    children: tuple[int, ...]
    """The positions of the tasks that need this one."""
    sources: dict[str, int]
    """The tasks whose results this one uses: position by name."""


def graph(tasks: Sequence[WorkflowTask]) -> list[Node]:
    """Return the graph of a workflow, in the order of its tasks."""
    places = {task.name: place for place, task in enumerate(tasks)}
    children: list[list[int]] = [[] for _ in tasks]
    for place, task in enumerate(tasks):
        for need in task.needs:
            children[places[need]].append(place)
    return [
        Node(task, tuple(children[place]), {name: places[name] for name in sorted(sources(task))})
        for place, task in enumerate(tasks)
    ]


def begin(tasks: Sequence[WorkflowTask], kept: Mapping[int, WorkflowStep] = MappingProxyType({})) -> list[WorkflowStep]:
    """Return the steps of a new workflow run. `kept` has the steps of an earlier run that are not executed again, by
    position."""
    places = {task.name: place for place, task in enumerate(tasks)}
    steps = []
    for place, task in enumerate(tasks):
        if place in kept:
            steps.append(kept[place])
            continue
        step = WorkflowStep(place=place, index=-1, name=task.name, waits=len(task.needs), run_if=task.run_if)
        step.fresh = not task.needs
        for need in task.needs:
            if (ended := kept.get(places[need])) is not None:
                tell(ended, step)
        steps.append(step)
    return steps


def kept(tasks: Sequence[WorkflowTask], before: Mapping[int, WorkflowStep]) -> dict[int, WorkflowStep]:
    """Return the steps that a retry does not execute again, by position: tasks that succeeded, or were skipped for
    another reason than a failure, and that need no task that is executed again."""
    places = {task.name: place for place, task in enumerate(tasks)}
    stays: dict[int, WorkflowStep] = {}
    for name in graphlib.TopologicalSorter({task.name: task.needs for task in tasks}).static_order():
        place = places[name]
        old = before.get(place)
        if old is not None and old.is_well and all(places[need] in stays for need in tasks[place].needs):
            stays[place] = old
    return stays


def tell(ended: WorkflowStep, child: WorkflowStep) -> None:
    """Update `child` after `ended`, one of the tasks in its `needs`, has ended. With the last of them, the child
    becomes ready to start or to be skipped."""
    child.waits -= 1
    if ended.state is not TaskState.SUCCEEDED:
        if not child.unmet or (ended.counts_as_failed and not child.ill):
            child.because = ended.name
        child.unmet += 1
        child.ill += ended.counts_as_failed
    if child.waits == 0:
        child.fresh = True


def skip_reason(step: WorkflowStep) -> str | None:
    """Return the reason why a task is skipped after all tasks that it needs have ended; None if it runs."""
    match step.run_if:
        case "all_succeeded":
            if not step.unmet:
                return None
            others = f" ({counted(step.unmet - 1, 'other')} did not either)" if step.unmet > 1 else ""
            return f"task {step.because} did not succeed{others}"
        case "any_failed":
            return None if step.ill else "none of the tasks it needs failed"
        case "always":
            return None
        case _:
            assert_never(step.run_if)


def join(task: WorkflowStep, failed: int, first: str) -> None:
    """End a task with `forEach` after all its instances have ended."""
    if failed:
        task.end(TaskState.FAILED, f"{failed} of {task.instances} instances did not succeed; the first: {first}")
    else:
        task.end(TaskState.SUCCEEDED)
