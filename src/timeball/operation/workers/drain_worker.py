"""Orders a worker to drain: the worker accepts no new attempts, finishes those that it holds, and ends its session."""

from __future__ import annotations

from timeball.domain.errors import NotFound
from timeball.operation.context import OperationContext
from timeball.ports.wakeups import Topic


async def drain_worker(context: OperationContext, session: str) -> None:
    """Store the order to drain, and wake all servers: the one that the worker polls sends the order. A repeated order
    has no further effect on the worker."""
    if not await context.store.drain(session):
        raise NotFound("worker", session)
    context.wakeups.wake(Topic.CANCEL)
