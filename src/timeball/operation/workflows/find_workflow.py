"""Find a workflow or one of its runs. Raise `NotFound` for a job that is no workflow, and for its runs."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from timeball.domain.errors import NotFound
from timeball.domain.job.job import workflow_of
from timeball.domain.run.ledger import Origin
from timeball.domain.run.run import Run
from timeball.domain.workflow.definition import WorkflowTask
from timeball.domain.workflow.progress import TaskState
from timeball.operation.context import OperationContext
from timeball.operation.find import find_job, find_run
from timeball.ports.store.jobs import JobStatus
from timeball.ports.store.workflows import TaskOfRun

MAX_ENDED_INSTANCES_READ: Final = 500
"""Maximum number of ended instances (items of tasks with `forEach`) whose runs are read: there may be 10,000."""


class FoundWorkflowRun(Struct, frozen=True):
    run: Run
    tasks: tuple[TaskOfRun, ...]
    instances: tuple[TaskOfRun, ...]
    runs: dict[str, Run]
    """The runs of all tasks, of instances that execute, and of up to `MAX_ENDED_INSTANCES_READ` ended instances, by run
    id."""


async def find_workflow(context: OperationContext, tenant: str, job_id: str) -> JobStatus:
    try:
        found = await find_job(context, tenant, job_id)
    except NotFound:
        raise NotFound("workflow", job_id) from None
    if not found.job.spec.is_workflow:
        raise NotFound("workflow", job_id)
    return found


async def find_workflow_run(context: OperationContext, tenant: str, run_id: str) -> FoundWorkflowRun:
    """Return the run with all its tasks. For a run that has not begun these are the tasks that it will have."""
    try:
        run = await find_run(context, tenant, run_id)
    except NotFound:
        raise NotFound("workflow run", run_id) from None
    begun = await context.store.workflow_run(run_id)
    if begun is None:
        return FoundWorkflowRun(run, tuple(map(_to_come, await _tasks(context, run))), (), {})
    under_way = [each for each in begun.instances if each.state is TaskState.RUNNING]
    ended = [each for each in begun.instances if each.state is not TaskState.RUNNING][:MAX_ENDED_INSTANCES_READ]
    read = [each.run_id for each in (*begun.tasks, *under_way, *ended) if each.run_id is not None]
    return FoundWorkflowRun(run, begun.tasks, begun.instances, await context.store.runs(read))


async def _tasks(context: OperationContext, run: Run) -> list[WorkflowTask]:
    found = (await context.store.specs([run.id])).get(run.id)
    if run.origin is Origin.TASK or found is None or not found.spec.is_workflow:
        raise NotFound("workflow run", run.id)
    return workflow_of(found.spec)


def _to_come(task: WorkflowTask) -> TaskOfRun:
    return TaskOfRun(
        name=task.name,
        index=None,
        state=TaskState.WAITING,
        reason="",
        run_id=None,
        waits=len(task.needs),
        instances=None,
        open=0,
        definition=task,
    )
