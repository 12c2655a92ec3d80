"""Errors for jobs that refer to something that does not exist."""

from __future__ import annotations

from collections.abc import Container

from timeball.domain.errors import Invalid, WrongValue
from timeball.domain.job.job import JobSpec, workflow_of


def no_place() -> Invalid:
    return Invalid("this server has no object storage; start it with --objects", "/resultLocation")


def task_ids(spec: JobSpec) -> set[str]:
    """Return the ids of the registered tasks that a workflow refers to."""
    return {task.task_id for task in workflow_of(spec) if task.task_id is not None}


def unknown_tasks(spec: JobSpec, unknown: Container[str]) -> Invalid | None:
    """Return the error for a workflow that refers to tasks which are not registered; None if there are none."""
    problems = tuple(
        WrongValue(f"/task/tasks/{place}/taskId", f"there is no registered task {task.task_id!r}")
        for place, task in enumerate(workflow_of(spec))
        if task.task_id is not None and task.task_id in unknown
    )
    return Invalid(problems[0].detail, problems=problems) if problems else None


def no_calendar(name: str, at: int) -> Invalid:
    return Invalid(f"there is no calendar {name!r}", f"/calendars/{at}")
