"""Check the headers of HTTP tasks: one rule for jobs, workflows, registered tasks, updates and edits of runs."""

from __future__ import annotations

from timeball.domain import http_headers
from timeball.domain.errors import Invalid
from timeball.domain.job import JobSpec, workflow_of
from timeball.domain.task import Http, Task


def refused_headers(spec: JobSpec) -> Invalid | None:
    """What is wrong with the headers of a job, or of the tasks of a workflow."""
    task = spec.task
    if type(task) is Http:
        return refused_header(task, "/task")
    for place, each in enumerate(workflow_of(spec)):
        if each.task is not None and (wrong := refused_header(each.task, f"/task/tasks/{place}/task")) is not None:
            return wrong
    return None


def refused_header(task: Task, at: str) -> Invalid | None:
    """The same for one task, which stands at a place in a document."""
    if type(task) is not Http or not task.headers:
        return None
    fault = http_headers.refused(task.headers)
    return None if fault is None else Invalid(fault.detail, f"{at}/headers/{_escaped(fault.name)}")


def _escaped(name: str) -> str:
    """As a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")
