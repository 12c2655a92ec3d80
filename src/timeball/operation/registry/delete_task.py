"""Remove a registered task."""

from __future__ import annotations

from timeball.domain.errors import NotFound
from timeball.operation.context import OperationContext


async def delete_task(context: OperationContext, tenant: str, task_id: str) -> None:
    """Delete a registered task. Raise `Conflict` while a job that is not cancelled refers to it. References in the
    tasks of workflows are not checked: such a task then fails, and its error names the missing task."""
    if not await context.store.delete_task(tenant, task_id):
        raise NotFound("task", task_id)
