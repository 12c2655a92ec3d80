"""A workflow: tasks that need each other. What may be written, and what follows from how its tasks end.

A workflow is a job whose task is of the kind `workflow`; so everything that rules jobs rules it, too. Each fire of it
is one run, and the tasks of that run are runs themselves, made one by one as what they need has ended. Nothing here
looks at a whole graph while it runs: a task counts what it still waits for.
"""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, assert_never

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from timeball.domain.dispatch.limits import Concurrency, Key, RateLimit
from timeball.domain.dispatch.placement import Label, Need, Resources, profile
from timeball.domain.duration import Duration
from timeball.domain.task.retry import Delivery, Retry
from timeball.domain.task.task import DEFAULT_GRACE, REMEMBERED, Task, check_duration
from timeball.domain.text.english import counted

MAX_TASKS: Final = 10_000
MAX_INSTANCES: Final = 10_000
"""Of one task with `forEach`."""
SIZE_PER_STEP: Final = 5_000
"""Tasks, needs and values that are looked at in one step of a check."""
LARGEST: Final = 1 << 20
"""Bytes of the parameters of one task, once the results of others are in them: as much as a request may bring."""

WOVEN: Final = str(profile(Need(labels=frozenset({"(workflow)"})), 5))
"""The queue in which runs of workflows wait: for no worker, since none can have such a label."""

Name = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$(?!\n)")]
RunIf = Literal["all_succeeded", "any_failed", "always"]


@lru_cache(maxsize=REMEMBERED)
def _check_durations(timeout: Duration | None, grace: Duration, start_deadline: Duration | None) -> None:
    check_duration("timeout", timeout, shortest=1)
    check_duration("grace", grace)
    check_duration("startDeadline", start_deadline, shortest=1)


class WorkflowTask(
    Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """One task of a workflow. It has what a job has to say of how it is executed, and nothing of when."""

    name: Name
    task: Task | None = None
    task_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    parameters: dict[str, Any] = {}
    """Anywhere in them, `{"$result": "extract", "path": "/rows"}` stands for the result of a task that it needs,
    `{"$item": ""}` for its item of `forEach` and `{"$parameter": "day"}` for a parameter of the workflow."""
    needs: Annotated[list[Annotated[str, Meta(max_length=100)]], Meta(max_length=MAX_TASKS)] = []
    """The tasks that have to end before it."""
    run_if: RunIf = "all_succeeded"
    for_each: list[Any] | dict[str, Any] | UnsetType = UNSET
    """Run it once for each item: a list, or a reference to one. Who needs it needs all of these, and its result is
    the list of theirs."""
    retry: Retry = Retry()
    priority: Literal["high", "medium", "low"] | Annotated[int, Meta(ge=0, le=9)] | None = None
    """By default that of the workflow."""
    timeout: Duration | None = None
    grace: Duration = DEFAULT_GRACE
    start_deadline: Duration | None = None
    ordering_key: Key | None = None
    concurrency: Concurrency | None = None
    rate_limit: RateLimit | None = None
    resources: Resources | None = None
    runs_on: Annotated[list[Label], Meta(max_length=20)] = []
    delivery: Delivery = "at_least_once"
    preemptible: bool = False

    def __post_init__(self) -> None:
        _check_durations(self.timeout, self.grace, self.start_deadline)
        if (self.task is None) == (self.task_id is None):
            raise ValueError(f"task {self.name} needs either a task or the taskId of a registered one")


class Workflow(
    Struct,
    frozen=True,
    gc=False,
    rename="camel",
    tag_field="kind",
    tag="workflow",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """Tasks that need each other."""

    tasks: Annotated[list[WorkflowTask], Meta(min_length=1, max_length=MAX_TASKS)]
    """`workflow_check` says whether they fit together: when they are written, not whenever they are read."""


# --- references ---------------------------------------------------------------------------------------------------


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


# --- how it goes on -----------------------------------------------------------------------------------------------


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
