"""The store of workflow runs. A workflow run consists of the runs of its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import astuple

from timeball.domain.instant import Micros
from timeball.domain.workflow.definition import WorkflowTask
from timeball.domain.workflow.progress import TaskState

NONE: Final[Mapping[str, bytes | None]] = {}
"""No large values."""


class AdvanceResult(Struct, frozen=True):
    """The result of one call of `advance_workflows`."""

    begun: int = 0
    """Number of workflow runs that began."""
    stopped: int = 0
    """Number of cancelled workflow runs that were stopped."""
    made: int = 0
    """Number of runs of tasks that were created."""
    moved: int = 0
    """Number of tasks that changed in another way: they ended, were skipped, or got instances."""
    ended: int = 0
    """Number of workflow runs that ended."""
    wants: tuple[str, ...] = ()
    """Keys of objects in object storage that tasks need to begin. Pass their content to the next call."""
    last: str = ""
    """The id of the last workflow run that was read; empty: none was."""

    def and_(self, other: AdvanceResult) -> AdvanceResult:
        """Return a result with the sums of the numbers of both; `wants` and `last` are concatenated."""
        return AdvanceResult(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    @property
    def anything(self) -> bool:
        """True if the call changed something."""
        return any(astuple(self)[:-2])


class TaskOfRun(Struct, frozen=True, kw_only=True):
    """The state of a task of a workflow run, or of one of its instances: a task with `forEach` has one for each item of
    a list."""

    name: str
    index: int | None
    """The index of the item that an instance is for; None: this is the task itself."""
    state: TaskState
    reason: str
    run_id: str | None
    waits: int
    """Number of tasks in the `needs` of this task that have not ended."""
    instances: int | None
    """Number of instances; None: the task runs once, or has not begun."""
    open: int
    """Number of instances that have not ended."""
    definition: WorkflowTask | None
    """None for an instance: the definition is that of its task."""


class WorkflowRun(Struct, frozen=True):
    """The tasks of a workflow run that has begun."""

    run_id: str
    job_id: str
    tenant: str
    tasks: tuple[TaskOfRun, ...]
    """The tasks, in the order of the workflow."""
    instances: tuple[TaskOfRun, ...]
    """The instances of all tasks, at most 10,000."""


class WorkflowStore(Protocol):
    """Workflow runs advance when tasks end. Each task gets its run once, however many servers advance the workflow run
    at the same time.
    """

    async def advance_workflows(
        self, limit: int, large: Mapping[str, bytes | None] = NONE, after: str = ""
    ) -> AdvanceResult:
        """Begin workflow runs that are due, stop those that were cancelled, and handle up to `limit` tasks that are
        ready to start or have ended: create their runs, skip them, or update the tasks that need them. End workflow
        runs whose tasks have all ended.

        `large` has the content of objects that an earlier result wanted, by key; None: the object does not exist any
        more. Only tasks of workflow runs with ids greater than `after` are handled.
        """
        ...

    async def next_workflow_at(self) -> Micros | None:
        """Return when `advance_workflows` has work next; 0: it has work now; None: no workflow run waits."""
        ...

    async def workflow_run(self, run_id: str) -> WorkflowRun | None:
        """Return a workflow run with its tasks; None: there is no such workflow run, or it has not begun."""
        ...

    async def workflow_runs_of(self, run_ids: Sequence[str]) -> dict[str, str]:
        """Return the workflow runs that these runs are tasks of, by run id. If a workflow run was retried and the run
        belongs to several, the first of them is returned.
        """
        ...
