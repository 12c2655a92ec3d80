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
    "session": "sessionId",
}
"""The parameter in the path that names the resource of an action, by its kind."""


_UNKNOWN: Final = Actor(kind="", id="", name="")


def audited_request(route: Route, caller: Caller | None, request: Request, address: str) -> AuditedRequest:
    """Return the request for the audit log. Without a caller, the change itself has to say which it is."""
    resource = route.audit.partition(".")[0]
    return AuditedRequest(
        tenant="" if caller is None else caller.tenant,
        actor=_UNKNOWN if caller is None else actor_of(caller),
        address=address,
        action=route.audit,
        resource=resource,
        resource_id=request.parameters.get(_NAMES.get(resource, ""), ""),
    )


def actor_of(caller: Caller) -> Actor:
    return Actor(kind=caller.kind, id=caller.credential, name=caller.name, user_id=caller.user_id or "")
