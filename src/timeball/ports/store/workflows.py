"""The store of workflow runs: runs that are made of other runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import astuple

from timeball.domain.instant import Micros
from timeball.domain.workflow.definition import WorkflowTask
from timeball.domain.workflow.progress import TaskState

NONE: Final[Mapping[str, bytes | None]] = {}


class AdvanceResult(Struct, frozen=True):
    """What one look at workflow runs came to."""

    begun: int = 0
    stopped: int = 0
    made: int = 0
    """Runs of tasks."""
    moved: int = 0
    """Tasks that went on in another way: they ended, or were skipped, or got instances."""
    ended: int = 0
    wants: tuple[str, ...] = ()
    """Objects elsewhere without which tasks cannot begin: give them to the next look."""
    last: str = ""
    """The last workflow run that was looked at."""

    def and_(self, other: AdvanceResult) -> AdvanceResult:
        return AdvanceResult(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    @property
    def anything(self) -> bool:
        return any(astuple(self)[:-2])


class TaskOfRun(Struct, frozen=True, kw_only=True):
    """Where a task of a workflow run stands, or one of its instances."""

    name: str
    index: int | None
    """Of the item, of an instance."""
    state: TaskState
    reason: str
    run_id: str | None
    waits: int
    """Tasks that it needs and that have not ended."""
    instances: int | None
    """How many it has; None: it runs once, or has not begun."""
    open: int
    definition: WorkflowTask | None


class WorkflowRun(Struct, frozen=True):
    """The tasks of a workflow run that has begun."""

    run_id: str
    job_id: str
    tenant: str
    tasks: tuple[TaskOfRun, ...]
    """In the order of the workflow."""
    instances: tuple[TaskOfRun, ...]
    """Of all of them, as far as there are not too many."""


class WorkflowStore(Protocol):
    """Workflow runs go on where tasks ended. Whoever looks, and how often: each task gets its run once."""

    async def advance_workflows(
        self, limit: int, large: Mapping[str, bytes | None] = NONE, after: str = ""
    ) -> AdvanceResult:
        """Begin workflow runs that are due, stop those that were cancelled, and look at no more than so many tasks
        that may run or have ended: make runs, skip, and end workflow runs all of whose tasks have ended. `large` is
        what an earlier look wanted; None: it is gone. Only tasks of workflow runs behind `after` are looked at."""
        ...

    async def next_workflow_at(self) -> Micros | None:
        """When there is something to weave: 0, if there is now."""
        ...

    async def workflow_run(self, run_id: str) -> WorkflowRun | None:
        """None: no such workflow run, or it has not begun."""
        ...

    async def workflow_runs_of(self, run_ids: Sequence[str]) -> dict[str, str]:
        """The workflow runs that these runs are tasks of; of the first of them, if it was repeated."""
        ...
