"""The rows of workflow runs and their tasks, in the order of their columns."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from timeball.stores.sql.schema.table import Table


class WorkflowRunRow(Struct, frozen=True):
    """A workflow run that has begun."""

    id: str
    job_id: str
    tenant: str
    version: int
    state: str
    """See `names.FlowState`."""
    tasks: int
    open: int
    """Number of tasks that have not ended. For a workflow run that was cancelled: number of live runs of its tasks."""
    failed: int
    skipped: int
    because: str
    """The name of the first task that failed or was cancelled, and why; empty if there is none."""
    spec: str
    """The spec that all tasks of the run share: the fields of the job's spec that hold for the run of every task."""


class WorkflowTaskRow(Struct, frozen=True):
    """The row of a task of a workflow run, or of an instance of one: see `progress.WorkflowStep`."""

    flow_id: str
    place: int
    idx: int
    name: str
    state: str
    fresh: int
    waits: int
    unmet: int
    ill: int
    because: str
    open: int
    instances: int | None
    run_id: str | None
    reason: str
    item: str | None


class WorkflowNodeRow(Struct, frozen=True):
    """The part of a task of a workflow run that never changes."""

    flow_id: str
    place: int
    definition: str
    children: str
    sources: str


WORKFLOW_RUNS: Final = Table("workflow_runs", WorkflowRunRow)
WORKFLOW_TASKS: Final = Table("workflow_tasks", WorkflowTaskRow)
WORKFLOW_NODES: Final = Table("workflow_nodes", WorkflowNodeRow)
