"""Accept the wall clock of the machine that holds the store."""

from __future__ import annotations

from timeball.operation.context import OperationContext
from timeball.ports.store.clock import ClockState


async def accept_clock(context: OperationContext) -> ClockState:
    """Accept a step of the wall clock. The planner creates no runs after the clock stepped ahead, until a step is
    confirmed or accepted. If planning is not held like this, nothing changes."""
    return await context.store.accept_clock()
