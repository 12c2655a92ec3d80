"""A workflow: tasks that need each other. What may be written.

A workflow is a job whose task is of the kind `workflow`; so everything that rules jobs rules it, too. Each fire of it
is one run, and the tasks of that run are runs themselves, made one by one as what they need has ended.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from timeball.domain.dispatch.limits import Concurrency, Key, RateLimit
from timeball.domain.dispatch.placement import Label, Need, Resources, profile
from timeball.domain.duration import Duration
from timeball.domain.task.retry import Delivery, Retry
from timeball.domain.task.task import DEFAULT_GRACE, REMEMBERED, Task, check_duration

MAX_TASKS: Final = 10_000

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
    """`validation` says whether they fit together: when they are written, not whenever they are read."""
