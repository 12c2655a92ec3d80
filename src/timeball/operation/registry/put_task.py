"""Register a task, or replace it."""

from __future__ import annotations

import msgspec

from timeball.domain.task.task import Task
from timeball.operation.context import OperationContext
from timeball.operation.jobs.check_tasks import refused_task
from timeball.ports.store.registry import RegisteredTask
from timeball.ports.wakeups import Topic


async def put_task(
    context: OperationContext, tenant: str, task_id: str, task: Task, *, if_match: int | None = None
) -> RegisteredTask:
    """Register or replace a task. Jobs that refer to it use the new version from their next run on. Raises
    `PreconditionFailed` if the task has another version than `if_match`."""
    if (refused := refused_task(task, "")) is not None:
        raise refused
    saved = await context.store.put_task(
        RegisteredTask(
            id=task_id,
            tenant=tenant,
            spec=msgspec.json.decode(msgspec.json.encode(task)),
            version=1,
            updated_at=context.store.now(),
        ),
        if_match,
    )
    context.wakeups.wake(Topic.READY)  # its runs may have waited for a worker that accepts another kind
    return saved
