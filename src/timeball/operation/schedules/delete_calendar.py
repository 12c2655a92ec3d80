"""Remove a calendar."""

from __future__ import annotations

from timeball.domain.errors import NotFound
from timeball.operation.context import OperationContext


async def delete_calendar(context: OperationContext, tenant: str, name: str) -> None:
    """Delete a calendar. Raise `Conflict` while a job that may still fire refers to it."""
    if not await context.store.delete_calendar(tenant, name):
        raise NotFound("calendar", name)
