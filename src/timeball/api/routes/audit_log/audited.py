"""What a request says about itself in the audit log: its caller, its address, and what its path names."""

from __future__ import annotations

from typing import Final

from timeball.api.routing import Request, Route
from timeball.domain.audit_log.change import AuditedRequest
from timeball.domain.audit_log.entry import Actor
from timeball.domain.identity.caller import Caller

_NAMES: Final = {
    "job": "jobId",
    "backfill": "backfillId",
    "workflow": "workflowId",
    "workflow-run": "workflowRunId",
    "run": "runId",
    "task": "taskId",
    "calendar": "name",
    "worker": "workerId",
    "api-key": "keyId",
    "user": "userId",
    "tenant": "tenantId",
}
"""The parameter in the path that names the resource of an action, by its kind."""


def audited_request(route: Route, caller: Caller, request: Request) -> AuditedRequest:
    resource = route.audit.partition(".")[0]
    return AuditedRequest(
        tenant=caller.tenant,
        actor=Actor(kind=caller.kind, id=caller.credential, name=caller.name, user_id=caller.user_id or ""),
        address=request.address,
        action=route.audit,
        resource=resource,
        resource_id=request.parameters.get(_NAMES.get(resource, ""), ""),
    )
