"""Accept the wall clock of the machine that holds the store."""

from __future__ import annotations

from timeball.operation.context import OperationContext
from timeball.ports.store.clock import ClockState


async def accept_clock(context: OperationContext) -> ClockState:
    """End a hold of planning: accept the step of the wall clock that caused it. If planning is not held, nothing
    changes."""
    return await context.store.accept_clock()
