"""Requests about workflows and their runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from timeball.client.job_document import document
from timeball.client.models.job import JobOptions
from timeball.client.models.jobs import Cancelled, Triggered
from timeball.client.models.runs import Runs
from timeball.client.models.workflows import Workflow, WorkflowRun, Workflows
from timeball.client.requests.request import ApiRequest, When, fresh_key, get, moment_text, post


def _of_workflow(workflow_id: str, what: str = "") -> str:
    return f"/v1/workflows/{quote(workflow_id, safe='')}{what}"


def _of_workflow_run(run_id: str, what: str = "") -> str:
    return f"/v1/workflow-runs/{quote(run_id, safe='')}{what}"


def new_workflow(name: str, tasks: Iterable[Mapping[str, Any]], options: JobOptions) -> ApiRequest[Workflow]:
    """Return the request that submits a workflow. An idempotency key is generated if the options have none."""
    body = document({**options, "name": name} if name else options)
    return create_workflow({**body, "tasks": list(tasks)}, body.pop("idempotencyKey", None) or fresh_key())


def create_workflow(body: Mapping[str, Any], idempotency_key: str) -> ApiRequest[Workflow]:
    """The request is repeatable because of its idempotency key: the server returns the same answer to a repetition."""
    return ApiRequest(
        method="POST",
        path="/v1/workflows",
        answer=Workflow,
        body={name: value for name, value in body.items() if name != "idempotencyKey"},
        headers={"Idempotency-Key": idempotency_key},
        repeatable=True,
    )


def workflow(workflow_id: str) -> ApiRequest[Workflow]:
    return get(_of_workflow(workflow_id), Workflow)


def workflows(
    *,
    status: str | None = None,
    name: str | None = None,
    user_id: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ApiRequest[Workflows]:
    return get("/v1/workflows", Workflows, status=status, name=name, userId=user_id, limit=limit, cursor=cursor)


def update_workflow(workflow_id: str, body: Mapping[str, Any], version: int | None) -> ApiRequest[Workflow]:
    """With a `version` the request is not repeatable: the first one changes the version, so a second would fail."""
    return ApiRequest(
        method="PATCH",
        path=_of_workflow(workflow_id),
        answer=Workflow,
        body=body,
        headers={} if version is None else {"If-Match": f'"{version}"'},
        repeatable=version is None,
    )


def delete_workflow(workflow_id: str) -> ApiRequest[Cancelled]:
    return ApiRequest(method="DELETE", path=_of_workflow(workflow_id), answer=Cancelled, repeatable=True)


def run_workflow(workflow_id: str) -> ApiRequest[Triggered]:
    return post(_of_workflow(workflow_id, "/run"), Triggered)


def pause_workflow(workflow_id: str, reason: str, until: When | None = None) -> ApiRequest[Workflow]:
    fields = {"reason": reason, "until": moment_text(until)}
    body = {name: value for name, value in fields.items() if value}
    return post(_of_workflow(workflow_id, "/pause"), Workflow, body or None, repeatable=True)


def resume_workflow(workflow_id: str) -> ApiRequest[Workflow]:
    return post(_of_workflow(workflow_id, "/resume"), Workflow, repeatable=True)


def workflow_runs(
    workflow_id: str, *, status: str | None = None, limit: int | None = None, cursor: str | None = None
) -> ApiRequest[Runs]:
    return get(_of_workflow(workflow_id, "/runs"), Runs, status=status, limit=limit, cursor=cursor)


def workflow_run(run_id: str) -> ApiRequest[WorkflowRun]:
    return get(_of_workflow_run(run_id), WorkflowRun)


def cancel_workflow_run(run_id: str) -> ApiRequest[WorkflowRun]:
    return post(_of_workflow_run(run_id, "/cancel"), WorkflowRun, repeatable=True)


def retry_workflow_run(run_id: str) -> ApiRequest[WorkflowRun]:
    """The request is repeatable: a run is retried once, and the server returns the same successor to a repetition."""
    return post(_of_workflow_run(run_id, "/retry"), WorkflowRun, repeatable=True)
