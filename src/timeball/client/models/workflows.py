"""Answers about workflows and their runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from timeball.client.models.job import Job
from timeball.client.models.model import Model
from timeball.client.models.runs import Failure
from timeball.domain.run.status import TERMINAL


class Workflow(Job, frozen=True):
    """A job with tasks that need each other."""

    workflow_id: str = ""
    tasks: list[dict[str, Any]] = []


class Workflows(Model, frozen=True):
    items: list[Workflow] = []
    next_cursor: str | None = None


class TaskOfRun(Model, frozen=True):
    """The state of one task in a workflow run."""

    name: str
    status: str = ""
    """`waiting` for the tasks that it needs, then the status of its run, finally `succeeded`, `failed`, `cancelled` or
    `skipped`."""
    reason: str = ""
    needs: list[str] = []
    run_if: str = "all_succeeded"
    waits_for: int = 0
    run_id: str | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    instances: int | None = None
    """Number of instances of a task with `forEach`, one per item; None for other tasks."""
    instances_open: int | None = None


class InstanceOfRun(Model, frozen=True):
    """The instance of a task with `forEach` for one item of the list. It has a run once it has started."""

    name: str
    index: int = 0
    status: str = ""
    reason: str = ""
    run_id: str | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None


class WorkflowRun(Model, frozen=True):
    """A run of a workflow with the states of all tasks."""

    workflow_run_id: str
    workflow_id: str = ""
    name: str = ""
    version: int = 1
    status: str = ""
    origin: str = ""
    fire_time: datetime | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    error: Failure | None = None
    verdict: str = ""
    reason: str = ""
    cancel_requested_at: datetime | None = None
    retry_of: str | None = None
    retried_as: str | None = None
    counts: dict[str, int] = {}
    """Number of tasks by status."""
    tasks: list[TaskOfRun] = []
    instances: list[InstanceOfRun] = []

    @property
    def finished(self) -> bool:
        return self.status in TERMINAL

    def task(self, name: str) -> TaskOfRun:
        """Return the task with this name."""
        return next(task for task in self.tasks if task.name == name)
