"""Accept the wall clock of the machine that holds the store."""

from __future__ import annotations

from timeball.operation.context import OperationContext
from timeball.ports.store_clock import ClockState


async def accept_clock(context: OperationContext) -> ClockState:
    """Accept a step of the wall clock. After a large step ahead, the planner creates no runs until the step is
    confirmed or accepted. If planning is not held like this, nothing changes. Raise `Conflict` if the store's time is
    far ahead of the wall clock."""
    return await context.store.accept_clock()
