"""Routes of workflow runs, with the state of every task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from timeball.api import views
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.api.views import ErrorView
from timeball.domain import instant
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import Micros
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status
from timeball.domain.workflow.definition import RunIf
from timeball.operation.runs.cancel import cancel_run
from timeball.operation.runs.retry_run import retry_run
from timeball.operation.workflows.find_workflow import FoundWorkflowRun, find_workflow_run
from timeball.ports.store.workflows import TaskOfRun


class InstanceView(Struct, frozen=True, rename="camel", kw_only=True):
    """One run of a task with `forEach`."""

    name: str
    index: int
    status: str
    reason: str
    run_id: str | None
    start_time: str | None
    end_time: str | None


class TaskView(Struct, frozen=True, rename="camel", kw_only=True):
    """The state of a task of a workflow run."""

    name: str
    status: str
    """`waiting` for the tasks that it needs; then the status of its run; finally `succeeded`, `failed`, `cancelled`, or
    `skipped` if the condition of its `runIf` was not met.
    """
    reason: str
    needs: list[str]
    run_if: RunIf
    waits_for: int
    """Number of needed tasks that have not ended."""
    run_id: str | None
    start_time: str | None
    """When the first attempt of its run started; with `forEach`, the earliest of its runs."""
    end_time: str | None
    """When its run ended; with `forEach`, the last of its runs."""
    instances: int | UnsetType = UNSET
    """Number of instances of a task with `forEach`: one per item."""
    instances_open: int | UnsetType = UNSET
    """Number of these instances that have not ended."""


class WorkflowRunView(Struct, frozen=True, rename="camel", kw_only=True):
    """A run of a workflow, with all its tasks."""

    workflow_run_id: str
    workflow_id: str
    name: str
    version: int
    status: Status
    origin: Origin
    fire_time: str
    start_time: str | None
    end_time: str | None
    error: ErrorView | None
    verdict: Verdict
    reason: str
    cancel_requested_at: str | None
    retry_of: str | None
    retried_as: str | None
    counts: dict[str, int]
    """Number of tasks by status."""
    tasks: list[TaskView]
    instances: list[InstanceView]
    """The runs of tasks with `forEach`, at most the first ten thousand."""


async def read_run(call: Call) -> Answer:
    return await _answer_run(call, call.workflow_run_id)


async def cancel_workflow_run(call: Call) -> Answer:
    await find_workflow_run(call.context, call.tenant, call.workflow_run_id)
    await cancel_run(call.context, call.tenant, call.workflow_run_id)
    return await _answer_run(call, call.workflow_run_id)


async def retry_workflow_run(call: Call) -> Answer:
    await find_workflow_run(call.context, call.tenant, call.workflow_run_id)
    successor = await retry_run(call.context, call.tenant, call.workflow_run_id)
    return await _answer_run(call, successor.id)


async def _answer_run(call: Call, run_id: str) -> Answer:
    return answer_json(_run_view(await find_workflow_run(call.context, call.tenant, run_id)))


def _run_view(found: FoundWorkflowRun) -> WorkflowRunView:
    run = found.run
    parts: dict[str, list[TaskOfRun]] = {}
    for each in found.instances:
        parts.setdefault(each.name, []).append(each)
    tasks = [_task_view(each, parts.get(each.name, [each]), found) for each in found.tasks]
    return WorkflowRunView(
        workflow_run_id=run.id,
        workflow_id=run.job_id,
        name=run.job_name,
        version=run.version,
        status=run.status,
        origin=run.origin,
        fire_time=instant.render(run.fire_time),
        start_time=views.moment(run.started_at),
        end_time=views.moment(run.finished_at),
        error=views.error_view(run.failure),
        verdict=run.verdict,
        reason=run.reason,
        cancel_requested_at=views.moment(run.cancel_requested_at),
        retry_of=None if run.is_due_instant else run.retry_of,
        retried_as=run.retried_as,
        counts=dict(Counter(task.status for task in tasks)),
        tasks=tasks,
        instances=[
            InstanceView(
                name=each.name,
                index=each.index or 0,
                status=_status(each, found),
                reason=each.reason,
                run_id=each.run_id,
                start_time=views.moment(_started_at([each], found)),
                end_time=views.moment(_finished_at([each], found)),
            )
            for each in found.instances
        ],
    )


def _task_view(task: TaskOfRun, parts: Sequence[TaskOfRun], found: FoundWorkflowRun) -> TaskView:
    """`parts` are the instances of the task, or the task itself if it runs once."""
    definition = task.definition
    return TaskView(
        name=task.name,
        status=_status(task, found),
        reason=task.reason,
        needs=[] if definition is None else definition.needs,
        run_if="all_succeeded" if definition is None else definition.run_if,
        waits_for=task.waits,
        run_id=task.run_id,
        start_time=views.moment(_started_at(parts, found)),
        end_time=None if task.open else views.moment(_finished_at(parts, found)),
        instances=UNSET if task.instances is None else task.instances,
        instances_open=UNSET if task.instances is None else task.open,
    )


def _status(task: TaskOfRun, found: FoundWorkflowRun) -> str:
    """Return the status of the task's run while it is live, otherwise that of the task."""
    live = found.runs.get(task.run_id or "")
    return task.state.value if live is None or live.is_terminal else live.status.value


def _runs(parts: Sequence[TaskOfRun], found: FoundWorkflowRun) -> Iterator[Run]:
    return (found.runs[each.run_id] for each in parts if each.run_id is not None and each.run_id in found.runs)


def _started_at(parts: Sequence[TaskOfRun], found: FoundWorkflowRun) -> Micros | None:
    return min((run.started_at for run in _runs(parts, found) if run.started_at is not None), default=None)


def _finished_at(parts: Sequence[TaskOfRun], found: FoundWorkflowRun) -> Micros | None:
    return max((run.finished_at for run in _runs(parts, found) if run.finished_at is not None), default=None)


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/workflow-runs/{workflowRunId}",
        permission=Permission.READ,
        summary="Read a workflow run, with the state of every task",
        handle=read_run,
        answer=WorkflowRunView,
        problems=(404,),
    ),
    Route(
        method="POST",
        path="/v1/workflow-runs/{workflowRunId}/cancel",
        permission=Permission.RUN,
        summary="Cancel a workflow run",
        audit="workflow-run.cancel",
        description="Creates no more runs of its tasks, and cancels its live runs.",
        handle=cancel_workflow_run,
        answer=WorkflowRunView,
        problems=(404,),
    ),
    Route(
        method="POST",
        path="/v1/workflow-runs/{workflowRunId}/retry",
        permission=Permission.RUN,
        summary="Retry a workflow run from the tasks that failed",
        audit="workflow-run.retry",
        description=(
            "Returns the run that replaces it. Tasks that succeeded, and need no task that runs again, are kept"
            " with their results; all others run by the definition of the old run."
        ),
        handle=retry_workflow_run,
        answer=WorkflowRunView,
        problems=(404, 409),
    ),
)
