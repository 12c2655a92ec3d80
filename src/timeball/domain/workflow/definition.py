"""The definition of a workflow: a job with tasks that depend on each other.

A workflow is a job whose task has the kind `workflow`, so all rules for jobs apply to it. Each fire of a workflow is
one run. The tasks of that run are runs of their own; the run of a task is created when the tasks that it needs have
ended.
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

WORKFLOW_PROFILE: Final = str(profile(Need(labels=frozenset({"(workflow)"})), 5))
"""The placement profile of workflow runs. No worker can have its label, so that no worker claims them."""

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
    """One task of a workflow. It has the fields of a job that define the execution, but no schedule."""

    name: Name
    task: Task | None = None
    task_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    parameters: dict[str, Any] = {}
    """The parameters of the task. At any depth, `{"$result": "extract", "path": "/rows"}` stands for the result of a
    task in `needs`, `{"$item": ""}` for the item of `forEach`, and `{"$parameter": "day"}` for a parameter of the
    workflow."""
    needs: Annotated[list[Annotated[str, Meta(max_length=100)]], Meta(max_length=MAX_TASKS)] = []
    """The names of the tasks that must end before this one starts."""
    run_if: RunIf = "all_succeeded"
    for_each: list[Any] | dict[str, Any] | UnsetType = UNSET
    """A list of items, or a reference to one. The task runs once for each item. Tasks that need this task wait for all
    its instances, and its result is the list of their results."""
    retry: Retry = Retry()
    priority: Literal["high", "medium", "low"] | Annotated[int, Meta(ge=0, le=9)] | None = None
    """The priority of the task. The default is that of the workflow."""
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
            raise ValueError(f"task {self.name} needs either a task or the taskId of a registered task")


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
    """A workflow: tasks that depend on each other."""

    tasks: Annotated[list[WorkflowTask], Meta(min_length=1, max_length=MAX_TASKS)]
    """The tasks. The module `validation` checks that they are consistent when a workflow is created or changed, not
    each time it is decoded."""
