"""Routes of workflows: jobs with tasks that need each other.

A workflow is a job: its id is the id of the job, and all routes of jobs accept it. In these routes it has `tasks` in
place of a `task`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, structs

from timeball.api import views
from timeball.api.bodies import PauseBody
from timeball.api.query import PageQuery, RunListQuery, Text, job_statuses, run_filter
from timeball.api.routes.jobs.job_actions import RunNowAnswer
from timeball.api.routes.jobs.jobs import (
    CancelledJob,
    created_answer,
    etag,
    idempotency_key,
    if_match,
    new_job,
    owned,
    update_routes,
)
from timeball.api.routes.runs.runs import RunList, answer_runs
from timeball.api.routing import JSON, Answer, Call, Route, answer_json
from timeball.api.rows import rows
from timeball.api.views import JobView
from timeball.domain import instant
from timeball.domain.errors import Invalid, TimeballError
from timeball.domain.identity.permission import Permission
from timeball.domain.job.job import JobSpec
from timeball.domain.run.ledger import Origin
from timeball.domain.workflow.definition import MAX_TASKS, WorkflowTask
from timeball.jobspec import job_reader, json_input
from timeball.jobspec.documents import JobChange
from timeball.operation.jobs.pause import pause, resume
from timeball.operation.jobs.update import update
from timeball.operation.runs.cancel import cancel_job
from timeball.operation.runs.run_now import run_now
from timeball.operation.workflows.find_workflow import find_workflow
from timeball.ports.store.jobs import JobFilter, JobStatus
from timeball.slices import in_slices

EXAMPLE: Final = {
    "name": "nightly",
    "schedule": {"type": "cron", "expression": "0 2 * * *", "timezone": "Europe/Berlin"},
    "tasks": [
        {"name": "extract", "task": {"kind": "shell", "command": "python3 extract.py"}, "timeout": "30m"},
        {
            "name": "load",
            "needs": ["extract"],
            "task": {"kind": "python", "function": "warehouse.load"},
            "forEach": {"$result": "extract", "path": "/tables"},
            "parameters": {"table": {"$item": ""}},
        },
        {
            "name": "alarm",
            "needs": ["load"],
            "runIf": "any_failed",
            "task": {"kind": "http", "url": "https://example.com/alarm"},
        },
    ],
}
_OWN_RUNS: Final = frozenset(Origin) - {Origin.TASK}
_ORIGINS: Final = {"/task/tasks": "/tasks", "/task": "/tasks"}


class NewWorkflow(JobSpec, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A job with `tasks` in place of a `task`. Settings of a single task, such as `timeout`, are given per task."""

    tasks: Annotated[list[WorkflowTask], Meta(min_length=1, max_length=MAX_TASKS)]
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=255)] | None = None


WorkflowChange: Final = msgspec.defstruct(
    "WorkflowChange",
    [("tasks", list[WorkflowTask] | None, None)],
    bases=(JobChange,),
    namespace={"__doc__": "Fields of a workflow to change. The tasks are replaced as a whole."},
    module=__name__,
    frozen=True,
    rename="camel",
    kw_only=True,
)


class WorkflowView(JobView, frozen=True, rename="camel", kw_only=True):
    """A workflow in an answer: the fields of its job, with `tasks` in place of `task`."""

    workflow_id: str
    tasks: list[WorkflowTask]


class WorkflowList(Struct, frozen=True, rename="camel"):
    items: list[WorkflowView]
    next_cursor: str | None


class WorkflowsQuery(PageQuery, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    status: Annotated[Text, Meta(description="One or several, separated by commas.")] = ""
    name: Text = ""
    user_id: Text = ""


async def create(call: Call) -> Answer:
    clock = call.context.clock
    await json_input.check_in_slices(call.raw, clock)
    document = _as_job(json_input.parse(call.raw), complete=True)
    body = await in_slices(job_reader.reading_document(document, _ORIGINS), clock)
    [created] = await call.services.submit([new_job(call, body, idempotency_key(call), len(call.raw))])
    if isinstance(created, TimeballError):
        raise job_reader.pointed_back(created, body.origins) if isinstance(created, Invalid) else created
    answer = created_answer(created, "/v1/workflows/")
    assert isinstance(answer.body, bytes)
    return structs.replace(answer, body=_as_workflow(answer.body))


async def list_workflows(call: Call) -> Answer:
    query: WorkflowsQuery = call.query
    where = JobFilter(
        tenant=call.tenant,
        status=job_statuses(query.status),
        name=query.name or None,
        user_id=query.user_id or None,
        workflows=True,
    )
    page = await call.context.store.list_jobs(where, query.after("j"), query.limit, may_lag=True)
    whole = [await call.context.large_value_store.whole_job(each) for each in page.items]
    shown = rows(
        whole, lambda each: msgspec.Raw(_as_workflow(views.render_job(each))), "jobId", lambda each: each.job.id
    )
    return answer_json({"items": shown, "nextCursor": page.next_cursor})


async def read(call: Call) -> Answer:
    return await _answer(call, await find_workflow(call.context, call.tenant, call.workflow_id))


async def change(call: Call) -> Answer:
    await json_input.check_in_slices(call.raw, call.context.clock)
    await find_workflow(call.context, call.tenant, call.workflow_id)
    made = job_reader.change_of(_as_job(json_input.parse(call.raw), complete=False), _ORIGINS)
    changed = owned(call.caller, made)
    matched = if_match(call)
    found = await update(call.context, call.tenant, call.workflow_id, changed, if_match=matched, by=call.caller.name)
    return await _answer(call, found)


async def cancel(call: Call) -> Answer:
    await find_workflow(call.context, call.tenant, call.workflow_id)
    await cancel_job(call.context, call.tenant, call.workflow_id)
    return answer_json(CancelledJob(call.workflow_id, "cancelled"))


async def run(call: Call) -> Answer:
    await find_workflow(call.context, call.tenant, call.workflow_id)
    run_id, status = await run_now(call.context, call.tenant, call.workflow_id)
    return answer_json(
        RunNowAnswer(job_id=call.workflow_id, run_id=run_id, status=status, detail=views.status_text(status))
    )


async def pause_workflow(call: Call) -> Answer:
    body: PauseBody = call.body
    await find_workflow(call.context, call.tenant, call.workflow_id)
    until = None if body.until is None else instant.parse(body.until, "/until")
    return await _answer(
        call, await pause(call.context, call.tenant, call.workflow_id, reason=body.reason, until=until)
    )


async def resume_workflow(call: Call) -> Answer:
    await find_workflow(call.context, call.tenant, call.workflow_id)
    return await _answer(call, await resume(call.context, call.tenant, call.workflow_id))


async def runs(call: Call) -> Answer:
    query: RunListQuery = call.query
    await find_workflow(call.context, call.tenant, call.workflow_id)
    where = run_filter(query, call.tenant)
    where = structs.replace(where, job_id=call.workflow_id, origin=where.origin or _OWN_RUNS)
    return await answer_runs(call, where, query)


async def _answer(call: Call, found: JobStatus) -> Answer:
    whole = await call.context.large_value_store.whole_job(found)
    return Answer(_as_workflow(views.render_job(whole)), 200, JSON, [etag(found)])


def _as_job(document: Any, *, complete: bool) -> dict[str, Any]:
    """Return the job document of a workflow document."""
    if not isinstance(document, dict):
        raise Invalid("a workflow is a JSON object")
    job = {name: value for name, value in document.items() if name not in ("tasks", "workflowId")}
    if wrong := next((name for name in ("task", "taskId", "payload") if job.get(name) is not None), None):
        raise Invalid(f"a workflow has no {wrong!r}; it has tasks", f"/{wrong}")
    if "tasks" in document:
        job["task"] = {"kind": "workflow", "tasks": document["tasks"]}
    elif complete:
        raise Invalid("'tasks' is missing", "/tasks")
    return job


def _as_workflow(job: bytes) -> bytes:
    """Convert the JSON of a job to that of a workflow: add `workflowId`, and put the `tasks` in the place of `task`."""
    document: dict[str, msgspec.Raw] = msgspec.json.decode(job, type=dict[str, msgspec.Raw])
    tasks = msgspec.json.decode(document.pop("task"), type=dict[str, msgspec.Raw])["tasks"]
    return msgspec.json.encode({"workflowId": document["jobId"], **document, "tasks": tasks})


_UPDATE: Final = (
    "Partial: missing fields keep their values; `tasks` and `schedule` are replaced as a whole, null restores"
    " the default. A run that became due before keeps the tasks with which it began."
)


ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/workflows",
        permission=Permission.EDIT,
        summary="Create a workflow",
        audit="workflow.create",
        audited_by_job=True,
        description=(
            "Each task has a name and the names of the tasks that it `needs`. A cycle is refused, and the error"
            " names it. A workflow is a job: it is scheduled like one, and its `workflowId` is the job's id."
        ),
        handle=create,
        body=NewWorkflow,
        reads_raw=True,
        answer=WorkflowView,
        status=201,
        headers={
            "Idempotency-Key": "A repeated request with this key and body gets the first answer and creates nothing."
        },
        example=EXAMPLE,
    ),
    Route(
        method="GET",
        path="/v1/workflows",
        permission=Permission.READ,
        summary="List workflows, newest first",
        handle=list_workflows,
        query=WorkflowsQuery,
        answer=WorkflowList,
    ),
    Route(
        method="GET",
        path="/v1/workflows/{workflowId}",
        permission=Permission.READ,
        summary="Read a workflow",
        handle=read,
        answer=WorkflowView,
        problems=(404,),
    ),
    *update_routes(
        "/v1/workflows/{workflowId}",
        summary="Update a workflow",
        audit="workflow.update",
        description=_UPDATE,
        handle=change,
        body=WorkflowChange,
        answer=WorkflowView,
    ),
    Route(
        method="DELETE",
        path="/v1/workflows/{workflowId}",
        permission=Permission.RUN,
        summary="Cancel a workflow",
        audit="workflow.cancel",
        description="Stops the schedule, cancels live runs with all their tasks, keeps the history.",
        handle=cancel,
        answer=CancelledJob,
        problems=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/workflows/{workflowId}/run",
        permission=Permission.RUN,
        summary="Run a workflow now",
        audit="workflow.run",
        description="In addition to its schedule, under its overlap policy.",
        handle=run,
        answer=RunNowAnswer,
        problems=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/workflows/{workflowId}/pause",
        permission=Permission.RUN,
        summary="Pause a workflow",
        audit="workflow.pause",
        description="Nothing fires until it is resumed. Live runs continue.",
        handle=pause_workflow,
        body=PauseBody,
        body_optional=True,
        answer=WorkflowView,
        example={"reason": "the warehouse moves"},
        problems=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/workflows/{workflowId}/resume",
        permission=Permission.RUN,
        summary="Resume a paused workflow",
        audit="workflow.resume",
        handle=resume_workflow,
        answer=WorkflowView,
        problems=(404, 409),
    ),
    Route(
        method="GET",
        path="/v1/workflows/{workflowId}/runs",
        permission=Permission.READ,
        summary="List the runs of a workflow, newest first",
        description="Without the runs of its tasks, unless `origin=task` selects them.",
        handle=runs,
        query=RunListQuery,
        answer=RunList,
        problems=(404,),
    ),
)
