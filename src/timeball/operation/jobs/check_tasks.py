"""Check what a task may not contain: one rule for jobs, workflows, registered tasks, updates and edits of runs.

Headers of HTTP tasks (`domain.task.http_headers`), variables of scripts (`domain.task.script_environment`).
Workers check both once more, for jobs that were stored before there was such a rule.
"""

from __future__ import annotations

from typing import Final

from timeball.domain.errors import Invalid, Problem
from timeball.domain.job.job import JobSpec
from timeball.domain.task import http_headers, script_environment
from timeball.domain.task.task import Http, Script, Task
from timeball.domain.workflow.definition import Workflow

CHECKED: Final = frozenset({Http, Script, Workflow})
"""The types of tasks that may be refused: for all others a submit does not even ask."""


def refused_tasks(spec: JobSpec) -> Invalid | None:
    """What is wrong with the task of a job, or with the first such task of a workflow."""
    task = spec.task
    if not isinstance(task, Workflow):
        return None if task is None else refused_task(task, "/task")
    for place, each in enumerate(task.tasks):
        if each.task is not None and (refused := refused_task(each.task, f"/task/tasks/{place}/task")) is not None:
            return refused
    return None


def refused_task(task: Task, at: str) -> Invalid | None:
    """The same for one task, which stands at a place in a document."""
    if isinstance(task, Http) and task.headers:
        fault = http_headers.refused(task.headers)
        return None if fault is None else Invalid(fault.detail, f"{at}/headers/{_escaped(fault.name)}")
    if isinstance(task, Script) and task.env and (names := script_environment.refused(task.env)):
        problems = [Problem(f"{at}/env/{_escaped(name)}", script_environment.reason(name)) for name in names]
        return Invalid(problems[0].detail, problems=tuple(problems))
    return None


def _escaped(name: str) -> str:
    """As a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")
