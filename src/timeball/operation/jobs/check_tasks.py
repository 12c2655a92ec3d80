"""Check tasks for forbidden content: one rule for jobs, workflows, registered tasks, updates and edits of runs.

The rule covers headers of HTTP tasks (`domain.task.http_headers`) and variables of scripts
(`domain.task.script_environment`). Workers check both again, for jobs that were stored before the rule existed.
"""

from __future__ import annotations

from typing import Final

from timeball.domain.errors import Invalid, WrongValue
from timeball.domain.job.job import JobSpec
from timeball.domain.task import http_headers, script_environment
from timeball.domain.task.task import Http, Script, Task
from timeball.domain.workflow.definition import Workflow

CHECKED: Final = frozenset({Http, Script, Workflow})
"""The task types that may be refused. A submit skips the check for all others."""


def refused_tasks(spec: JobSpec) -> Invalid | None:
    """Return the error for the task of a job, or for the first refused task of a workflow; None if there is none."""
    task = spec.task
    if not isinstance(task, Workflow):
        return None if task is None else refused_task(task, "/task")
    for place, each in enumerate(task.tasks):
        if each.task is not None and (refused := refused_task(each.task, f"/task/tasks/{place}/task")) is not None:
            return refused
    return None


def refused_task(task: Task, at: str) -> Invalid | None:
    """Return the error for one task at the path `at` of a document; None if the task is accepted."""
    if isinstance(task, Http) and task.headers:
        fault = http_headers.refused(task.headers)
        return None if fault is None else Invalid(fault.detail, f"{at}/headers/{_escaped(fault.name)}")
    if isinstance(task, Script) and task.env and (names := script_environment.refused(task.env)):
        problems = [WrongValue(f"{at}/env/{_escaped(name)}", script_environment.reason(name)) for name in names]
        return Invalid(problems[0].detail, problems=tuple(problems))
    return None


def _escaped(name: str) -> str:
    """Escape a name for a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")
